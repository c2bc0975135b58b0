package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// A copied state keeps its revision and its metadata, in the layout's own table and in the table of its entity type.
func TestCopiedState(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{"commit": newCommit(), "commit with an index": newIndexed(), "j5ik2o": newJ5ik2o(j5ik2o.Journal{}, false)()} {
		for what, o := range map[string]dynamostore.Options{
			"the layout's table": {},
			"a table of its own": {StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Thing": {Table: "own" + rand.Text()}}},
		} {
			o.CreateTables = true
			s, err := dynamostore.Open(t.Context(), client(t), layout, o)
			if err != nil {
				t.Fatal(err)
			}
			id := annals.NewPersistenceID("Thing", what)
			if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), id, 41); err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			if st, ok, err := s.States().Get(t.Context(), id); ok || st.Revision != 41 || !st.Deleted || err != nil {
				t.Errorf("%s, %s: after the skip: %+v, %v, %v", name, what, st, ok, err)
			}
			want := annals.StateWrite{ID: id, After: 41, Payload: text("copy").Payload, Tags: []string{"red"}, Metadata: text("who and why").Payload}
			if r, err := s.States().Put(t.Context(), want); r.SeqNr != 42 || err != nil {
				t.Fatalf("%s, %s: put: %+v, %v", name, what, r, err)
			}
			if st, ok, err := s.States().Get(t.Context(), id); !ok || st.Revision != 42 || string(st.Metadata.Data) != "who and why" || string(st.Data) != "copy" || err != nil {
				t.Errorf("%s, %s: the copy: %+v, %v", name, what, st, err)
			}
			if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), id, 50); !errors.Is(err, annals.ErrConflict) {
				t.Errorf("%s, %s: skip of a state that was written: %v", name, what, err)
			}
			if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), id, 0); !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%s, %s: skip to 0: %v", name, what, err)
			}
			if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: id, After: 42, Metadata: text("by whom").Payload}); err != nil {
				t.Fatal(err)
			}
			if st, ok, err := s.States().Get(t.Context(), id); ok || st.Revision != 43 || string(st.Metadata.Data) != "by whom" || err != nil {
				t.Errorf("%s, %s: the tombstone: %+v, %v", name, what, st, err)
			}
		}
	}
}

// A skip whose answer was lost is recognised. A skip to another revision is a conflict.
func TestSkipWithLostAnswer(t *testing.T) {
	t.Parallel()
	bs := &benches{layout: newCommit}
	for name, layout := range map[string]func() dynamostore.Layout{"commit": newCommit, "indexed": newIndexed, "j5ik2o": newJ5ik2o(j5ik2o.Journal{}, false)} {
		bs.layout = layout
		c := bs.config(t)
		s := c.Open(t).(*dynamostore.Store)
		end := c.LoseAnswer(t, s)
		if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "Thing|1-1", 7); err != nil {
			t.Errorf("%s: the first skip: %v", name, err)
		}
		end()
		if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "Thing|1-1", 7); err != nil {
			t.Errorf("%s: the same again: %v", name, err)
		}
		if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "Thing|1-1", 8); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("%s: another: %v", name, err)
		}
	}
}

// Without tombstones a table has no place for a revision without a state: revisions would repeat after a delete.
func TestWithoutTombstones(t *testing.T) {
	t.Parallel()
	prefix := "s" + rand.Text()
	layout := j5ik2o.Layout{Journal: j5ik2o.Journal{Table: prefix + "j"}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Table: prefix + "d"}}
	s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "Thing|1-1", 7); !errors.Is(err, annals.ErrUnsupported) {
		t.Error(err)
	}
	if st, ok, err := s.States().Get(t.Context(), "Thing|1-1"); ok || st.Revision != 0 || err != nil {
		t.Error(st, ok, err)
	}
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "Thing|1-1", Payload: text("1").Payload}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Thing|1-1", After: 1}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("delete: %v", err)
	}
	if st, ok, err := s.States().Get(t.Context(), "Thing|1-1"); !ok || st.Revision != 1 || err != nil {
		t.Error(st, ok, err)
	}
}

// Queries yield the tombstone of a skipped state, also when nothing else of its type was written.
func TestSkippedStateIsQueried(t *testing.T) {
	t.Parallel()
	s, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: "t" + rand.Text(), Index: "slices"}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "Copied|1", 7); err != nil {
		t.Fatal(err)
	}
	found := 0
	for st, err := range s.Query().States(t.Context(), annals.Filter{}) {
		if err != nil || st.ID != "Copied|1" || st.Revision != 7 || !st.Deleted {
			t.Errorf("%+v, %v", st, err)
		}
		found++
	}
	if found != 1 {
		t.Errorf("%d states found", found)
	}
}

// What a layout's Capabilities do not claim is ErrUnsupported, although other layouts have it.
func TestUnclaimedAbilities(t *testing.T) {
	t.Parallel()
	layout := j5ik2o.Layout{Journal: j5ik2o.Journal{Off: true}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Table: "s" + rand.Text()}}
	s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	_, recovered := s.Unwrap().(ability.Recoverer).Recover(t.Context(), "Thing|1-1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	_, forgotten := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Thing|1-1"})
	for name, err := range map[string]error{"skip": s.Unwrap().(ability.Skipper).SkipTo(t.Context(), "Thing|1-1", 0, 7), "recover": recovered, "forget": forgotten} {
		if !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
