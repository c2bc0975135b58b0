package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// holed is a store in which the events with number 2 were never written.
type holed struct{ *memstore.Store }

type holedJournal struct{ annals.Journal }

func (s holed) Journal() annals.Journal { return holedJournal{s.Store.Journal()} }

func (j holedJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range j.Journal.Replay(ctx, id, from, to) {
			if e.SeqNr != 2 && !yield(e, err) {
				return
			}
		}
	}
}

// A copy has the numbers of the original, also of what was deleted, or is refused.
func TestCopyKeepsNumbers(t *testing.T) {
	t.Parallel()
	text := annals.Payload{SerializerID: 1, Data: []byte("text")}
	for _, deleted := range []annals.SeqNr{0, 1, 3} {
		from, to := memstore.New(), memstore.New()
		for after := range annals.SeqNr(3) {
			_, err := from.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: after, Events: []annals.NewEvent{{Payload: text}}})
			if err == nil {
				_, err = from.States().Put(t.Context(), annals.StateWrite{ID: "T|1", After: after, Payload: text})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		err := from.Journal().DeleteTo(t.Context(), "T|1", deleted)
		if err == nil && deleted == 3 {
			_, err = from.States().Delete(t.Context(), annals.StateWrite{ID: "T|1", After: 3})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []annals.PersistenceID{"T|1", "T|none"} {
			if err := copyEvents(t.Context(), from, to, id); err != nil {
				t.Error(err)
			}
			if err := copyState(t.Context(), from, to, id); err != nil {
				t.Error(err)
			}
			if got, want := numbers(t, to, id), numbers(t, from, id); got != want {
				t.Errorf("the copy has %s, want %s", got, want)
			}
		}
		if err := copyEvents(t.Context(), holed{from}, memstore.New(), "T|1"); deleted == 0 && (err == nil || !strings.Contains(err.Error(), "number 2 is unused")) {
			t.Errorf("a number that is unused: %v", err)
		}
	}
}

// numbers are the numbers of an entity.
func numbers(t *testing.T, s annals.Store, id annals.PersistenceID) (all string) {
	t.Helper()
	for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintf("event %d, ", e.SeqNr)
	}
	last, err := s.Journal().LastSeqNr(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	state, there, err := s.States().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return all + fmt.Sprintf("last %d, revision %d, there %t", last, state.Revision, there)
}
