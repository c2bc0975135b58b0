package commit_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// indexed is requests with an index.
func indexed(t *testing.T, name string, prepare, do func(b *plantest.Bench)) {
	t.Helper()
	plantest.Requests(t, name, commit.Layout{Table: "annals", Index: "slices"}, func(b *plantest.Bench) {
		b.Told("open", b.Offer.Check(b.Context(), b, true))
		if prepare != nil {
			prepare(b)
		}
	}, do)
}

// show records what a query yields.
func show[T any](b *plantest.Bench, what string, seq iter.Seq2[T, error], one func(T) string) {
	text := ""
	var failed error
	for v, err := range seq {
		if failed = err; err == nil {
			text += " " + one(v)
		}
	}
	b.Told(what+":"+text, failed)
}

func events(b *plantest.Bench, f annals.Filter) {
	show(b, "events", b.Queries.Events(b.Context(), f), func(e annals.Event) string { return fmt.Sprintf("%s/%d", e.ID, e.SeqNr) })
}

func states(b *plantest.Bench, f annals.Filter) {
	show(b, "states", b.Queries.States(b.Context(), f), func(s annals.State) string { return fmt.Sprintf("%s/%d", s.ID, s.Revision) })
}

func ids(b *plantest.Bench, entityType string, after annals.PersistenceID) {
	show(b, "ids", b.Queries.IDs(b.Context(), entityType, after), func(id annals.PersistenceID) string { return string(id) })
}

func TestIndexRequests(t *testing.T) {
	some := func(b *plantest.Bench) { // two types, an entity without one, events and states
		b.Append(0, "1", "2")
		for _, id := range []annals.PersistenceID{"Thread|7", "Member|1", "plain"} {
			b.ID = id
			b.Append(0, "1")
		}
		b.Put(0, nil)
		b.ID = "Thread|42"
		b.Append(2, "3")
		b.Put(0, nil)
		b.Put(1, func(w *plan.StateWrite) { w.Tags = []string{"red"} })
	}
	quarter := annals.SpreadRanges(4)[0]
	indexed(t, "indexed-append", nil, func(b *plantest.Bench) {
		b.Append(0, "1")
		c := annals.Commit{ID: id, After: 1, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event("2")}}
		c.Events[0].Time = time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC) // not kept
		b.Commit(c)
	})
	indexed(t, "indexed-state", nil, func(b *plantest.Bench) { b.Put(0, nil); b.Put(1, nil) })
	indexed(t, "indexed-skip", nil, func(b *plantest.Bench) { b.Told("skip", b.SkipTo(b.Context(), id, 0, 41)) })
	indexed(t, "query-events", some, func(b *plantest.Bench) {
		events(b, annals.Filter{Type: "Thread"})
		events(b, annals.Filter{Type: "Thread", Slices: quarter, Limit: 2, Behind: time.Second})
		events(b, annals.Filter{Type: "Thread", Slices: annals.SliceRange{From: 441, To: 443}})
		events(b, annals.Filter{Type: "Thread", After: annals.Offset{Time: b.Time.Add(time.Hour)}})
	})
	indexed(t, "query-events-of-all-types", some, func(b *plantest.Bench) { events(b, annals.Filter{Slices: quarter}) })
	indexed(t, "query-states", some, func(b *plantest.Bench) {
		states(b, annals.Filter{Type: "Thread", Slices: quarter, Tag: "red"})
		states(b, annals.Filter{Type: "Thread", Slices: quarter, KeysOnly: true})
	})
	indexed(t, "query-newest", some, func(b *plantest.Bench) {
		o, err := b.Queries.Newest(b.Context(), annals.Filter{Type: "Thread", Slices: quarter})
		b.Told(fmt.Sprintf("newest: %s/%d", o.ID, o.SeqNr), err)
	})
	indexed(t, "query-ids", some, func(b *plantest.Bench) {
		ids(b, "", "")
		ids(b, "Thread", "Thread|7")
	})
	for name, layout := range map[string]commit.Layout{"settings-without-the-index": {Table: "annals"}, "settings-other-index": {Table: "annals", Index: "other"}} {
		indexed(t, name, nil, func(b *plantest.Bench) {
			offer, err := layout.Plan()
			if err != nil {
				t.Fatal(err)
			}
			b.Told("open", offer.Check(b.Context(), b, false))
		})
	}
}

func TestForgetRequests(t *testing.T) {
	forget := func(b *plantest.Bench, age time.Duration, dry bool) {
		done, err := b.Forget(b.Context(), ability.Forgetting{ID: b.ID, Age: age, DryRun: dry})
		b.Told(fmt.Sprintf("forget: %v", done), err)
	}
	deleted := func(n int) func(b *plantest.Bench) {
		return func(b *plantest.Bench) {
			for i := range n {
				b.Append(annals.SeqNr(i), "e")
			}
			b.Delete(annals.MaxSeqNr)
		}
	}
	requests(t, "forget", deleted(2), func(b *plantest.Bench) {
		forget(b, time.Hour, false)
		forget(b, 0, true)
		forget(b, 0, false)
		forget(b, 0, false)
	})
	requests(t, "forget-state", nil, func(b *plantest.Bench) {
		b.Put(0, nil)
		forget(b, 0, false)
		b.Put(1, func(w *plan.StateWrite) { w.Deleted = true })
		forget(b, 0, false)
	})
	requests(t, "forget-skipped", nil, func(b *plantest.Bench) {
		b.Told("skip", b.SkipTo(b.Context(), id, 0, 41))
		forget(b, 0, false)
	})
	requests(t, "forget-overtaken", deleted(2), func(b *plantest.Bench) {
		b.Meanwhile = func() { b.Append(2, "late") } // after the list
		forget(b, 0, false)
	})
	requests(t, "forget-in-two", deleted(100), func(b *plantest.Bench) { forget(b, 0, false) })
}

func TestOffsetRequests(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	save := func(b *plantest.Bench, epoch int64, offsets ...annals.Offset) {
		b.Told("save", b.Offsets.Save(b.Context(), annals.Progress{Projection: "list", Slices: annals.SliceRange{From: 384, To: 448}, Epoch: epoch, Offsets: offsets}))
	}
	one := annals.Offset{ID: id, SeqNr: 3, Time: at}
	two := annals.Offset{ID: id, SeqNr: 5, Time: at.Add(time.Second)}
	requests(t, "offsets", nil, func(b *plantest.Bench) {
		save(b, 0, one)
		save(b, 7, two, one)
		save(b, 7, one)
		save(b, 6, two)
		b.Meanwhile = func() { save(b, 7, annals.Offset{ID: id, SeqNr: 9, Time: at.Add(time.Minute)}) } // after the read
		save(b, 7, annals.Offset{ID: id, SeqNr: 8, Time: at.Add(2 * time.Second)})
		all, err := b.Offsets.Load(b.Context(), "list", annals.SliceRange{From: 384, To: 448})
		b.Told(fmt.Sprintf("load: %v", all), err)
		o, err := b.Offsets.Handled(b.Context(), "list", id)
		b.Told(fmt.Sprintf("handled: %v", o), err)
		b.Told("reset", b.Offsets.Reset(b.Context(), "list", annals.SliceRange{From: 384, To: 448}, annals.Offset{Time: at}))
	})
}
