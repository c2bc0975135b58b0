package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// The suite finds stores that break a promise. Each mutant must fail the cases named beside it; it may fail others.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name   string
		open   func() annals.Store
		caught []string
	}{
		{"drops the conflict check", func() annals.Store { return noConflicts{memstore.New()} },
			[]string{"J-X9", "RACE-1", "RACE-2", "RACE-3", "HISTORY-1", "LINEAR-1"}},
		{"truncates at a page", func() annals.Store { return onePage{memstore.New()} },
			[]string{"J-P3", "PAGE-1", "J-X3"}},
		{"forgets WriteIDs", func() annals.Store { return noWriteIDs{memstore.New()} },
			[]string{"RETRY-1", "RETRY-2", "RETRY-4", "RETRY-7"}},
		{"reuses numbers behind a delete", func() annals.Store { return &reusing{Store: memstore.New()} },
			[]string{"J-14", "DELETE-1", "RACE-5", "RECOVER-2", "HISTORY-1", "LINEAR-2"}},
		{"frees a deleted number to a stale writer", func() annals.Store { return &freeing{Store: memstore.New()} },
			[]string{"RACE-3", "RACE-4"}},

		{"stores the first event of a batch only", func() annals.Store { return halfBatches{memstore.New()} },
			[]string{"J-01", "J-A1", "BATCH-3"}},
		{"ends a replay in silence when its pages are deleted", func() annals.Store { return silentPages{memstore.New()} },
			[]string{"TRUNCATE-1", "TRUNCATE-2"}},
		{"recovers without looking again", func() annals.Store { return hastyRecovery{memstore.New()} },
			[]string{"RECOVER-20"}},
		{"lets an older snapshot replace a newer one", func() annals.Store { return lastSaved{memstore.New()} },
			[]string{"SNAPSHOT-1", "SNAPSHOT-2", "RECOVER-6"}},
		{"says conflict where it cannot know", func() annals.Store { return surePuts{memstore.New()} },
			[]string{"STATE-22", "STATE-23"}},
		{"forgets revisions behind a delete", func() annals.Store { return &freshStates{Store: memstore.New()} },
			[]string{"D-04", "D-06", "STATE-1", "HISTORY-2"}},
		{"cuts pages between events of one time", func() annals.Store { return tiesLost{memstore.New()} },
			[]string{"QUERY-4"}},
		{"ignores contexts", func() annals.Store { return deaf{memstore.New()} },
			[]string{"CONTEXT-1"}},
		{"leaves a goroutine behind every replay broken off", func() annals.Store { return leaking{memstore.New()} },
			[]string{"REPLAY-1"}},
		{"claims Metadata and drops them", func() annals.Store { return dropping{memstore.New()} },
			[]string{"J-O4"}},
		{"keeps Tags without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.Tags, c.TagQueries = false, false }}
		},
			[]string{"CLAIM-3", "CLAIM-6"}},
		{"forgets at once whatever the age", func() annals.Store { return hastyForgetter{memstore.New()} },
			[]string{"FORGET-3", "FORGET-8"}},
		{"forgets what is still there", func() annals.Store { return carelessForgetter{memstore.New()} },
			[]string{"FORGET-4", "FORGET-5", "FORGET-13"}},
		{"has states without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.States = false }}
		},
			[]string{"CLAIM-1", "CLAIM-10"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Open: func(testing.TB) annals.Store { return m.open() }, Short: true}
			p := c.probe(t)
			for _, id := range m.caught {
				tc := caseOf(t, id)
				if !tc.applies(p) || len(tc.missing(p)) > 0 || !fails(t, tc, p) {
					t.Errorf("%s: passes or does not apply, want it to fail", id)
				}
			}
		})
	}
}

// fails reports whether tc finds the fault of p's store, which a case of random histories or schedules may do only in one
// of several runs.
func fails(t *testing.T, tc testCase, p probe) bool {
	for range 30 {
		if len(record(t, func(tb testing.TB) { tc.run(newHarness(tb, p)) })) > 0 {
			return true
		}
	}
	return false
}

func caseOf(t *testing.T, id string) testCase {
	all := cases()
	i := slices.IndexFunc(all, func(tc testCase) bool { return tc.id == id })
	if i < 0 {
		t.Fatalf("there is no case %s", id)
	}
	return all[i]
}

// hastyRecovery reads the snapshot, then the events, and takes both for one moment.
type hastyRecovery struct{ *memstore.Store }

func (s hastyRecovery) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	snap, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
	if err != nil {
		return 0, err
	}
	if ok {
		if err := snapshot(snap); err != nil {
			return 0, err
		}
	}
	for range 100 {
		runtime.Gosched() // as a network would
	}
	for e, err := range s.Journal().Replay(ctx, id, snap.SeqNr+1, annals.MaxSeqNr) {
		if err != nil {
			return 0, err
		}
		if err := event(e); err != nil {
			return 0, err
		}
	}
	return s.Journal().LastSeqNr(ctx, id)
}

type lastSaved struct{ *memstore.Store }

func (s lastSaved) Snapshots() annals.SnapshotStore { return lastSavedSnapshots{s.Store.Snapshots()} }

type lastSavedSnapshots struct{ annals.SnapshotStore }

func (s lastSavedSnapshots) Save(ctx context.Context, snap annals.Snapshot) error {
	if err := snap.Validate(annals.Limits{}); err != nil {
		return err
	}
	if err := s.Delete(ctx, snap.ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
		return err
	}
	return s.SnapshotStore.Save(ctx, snap)
}

type surePuts struct{ *memstore.Store }

func (s surePuts) States() annals.StateStore { return sureStates{s.Store.States()} }

type sureStates struct{ annals.StateStore }

func (s sureStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	r, err := s.StateStore.Put(ctx, w)
	if errors.Is(err, annals.ErrUnknown) {
		err = &annals.Error{Op: "put state", ID: w.ID, Kind: annals.ErrConflict}
	}
	return r, err
}

// freshStates removes a state for good: under another id inside, the next put begins with revision 1.
type freshStates struct {
	annals.Store
	lives sync.Map
}

func (s *freshStates) States() annals.StateStore { return freshStateStore{s.Store.States(), s} }

func (s *freshStates) inside(id annals.PersistenceID) annals.PersistenceID {
	if n, ok := s.lives.Load(id); ok {
		return annals.PersistenceID(fmt.Sprintf("%s life %d", id, n))
	}
	return id
}

type freshStateStore struct {
	annals.StateStore
	s *freshStates
}

func (st freshStateStore) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	state, ok, err := st.StateStore.Get(ctx, st.s.inside(id))
	state.ID = id
	return state, ok, err
}

func (st freshStateStore) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.ID = st.s.inside(w.ID)
	return st.StateStore.Put(ctx, w)
}

func (st freshStateStore) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	outside := w.ID
	w.ID = st.s.inside(w.ID)
	r, err := st.StateStore.Delete(ctx, w)
	if err == nil {
		st.s.lives.Store(outside, annals.NewWriteID())
	}
	return r, err
}

type tiesLost struct{ annals.Store }

func (s tiesLost) Query() annals.Query { return tiesLostQuery{s.Store.Query()} }

type tiesLostQuery struct{ annals.Query }

func (q tiesLostQuery) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range q.Query.Events(ctx, f) {
			if err == nil && !e.Time.After(f.After.Time) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

type dropping struct{ annals.Store }

func (s dropping) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
		c.Events = slices.Clone(c.Events)
		for i := range c.Events {
			c.Events[i].Metadata = annals.Payload{}
		}
		return j.Append(ctx, c)
	}}
}

type claiming struct {
	annals.Store
	change func(c *annals.Capabilities)
}

func (s claiming) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	s.change(&c)
	return c
}
