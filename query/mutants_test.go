package query_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
)

// A store that lies to a feed makes it a feed that does not do one part of its work.
type (
	inOrder  struct{ annals.Store } // claims that everything is visible in order
	tooFar   struct{ annals.Store } // has a watermark that is now
	noEvents struct{ annals.Store } // has a journal that finds nothing
)

func (inOrder) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, EventQueries: true, TagQueries: true, Times: true}
}

func (s inOrder) Query() annals.Query { return watermarkNow{s.Store.Query()} }

func (s tooFar) Query() annals.Query { return watermarkNow{s.Store.Query()} }

type watermarkNow struct{ annals.Query }

func (watermarkNow) Watermark(context.Context) (time.Time, error) { return time.Now().UTC(), nil }

func (s noEvents) Journal() annals.Journal { return emptyJournal{s.Store.Journal()} }

type emptyJournal struct{ annals.Journal }

func (emptyJournal) Replay(context.Context, annals.PersistenceID, annals.SeqNr, annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(func(annals.Event, error) bool) {}
}

// The model finds feeds and workers that do one thing wrong.
func TestModelFindsMutants(t *testing.T) {
	t.Parallel()
	for name, mutate := range map[string]func(*model){
		"drops the window": func(m *model) { m.lie = func(s annals.Store) annals.Store { return inOrder{s} } },
		"trusts the clock": func(m *model) { m.lie = func(s annals.Store) annals.Store { return tooFar{s} } },
		"ignores holes":    func(m *model) { m.lie = func(s annals.Store) annals.Store { return noEvents{s} } },
		"resumes at the head": func(m *model) {
			m.resume = func(p annals.Position, newest annals.Offset) annals.Position {
				p.Through, p.Offsets = newest, nil
				return p
			}
		},
		"forgets what it handled beyond Through": func(m *model) {
			m.resume = func(p annals.Position, _ annals.Offset) annals.Position {
				p.Offsets = nil
				return p
			}
		},
		"goes on from the beginning": func(m *model) {
			m.resume = func(p annals.Position, _ annals.Offset) annals.Position { return annals.Position{Slices: p.Slices} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for r := range random.Rounds(t, modelRuns) {
				var err error
				synctest.Test(t, func(t *testing.T) {
					m := newModel(r)
					mutate(m)
					err = m.run(t.Context())
				})
				if err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("not found")
		})
	}
}
