package dynamostore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// A commit with an After above the last number is stored after a hole. Reads on one side of the hole are complete, reads over it are
// ErrCorrupt.
func TestAfterAboveTheLast(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]func() dynamostore.Layout{
		"commit":           newCommit,
		"akka":             newAkka(false),
		"j5ik2o by id":     newJ5ik2o(j5ik2o.Journal{}, false),
		"j5ik2o by number": newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: 3}, false),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s, err := dynamostore.Open(ctx, client(t), layout(), dynamostore.Options{CreateTables: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			id, invented := annals.NewPersistenceID("Thing", "1"), annals.NewWriteID()
			store := func(after annals.SeqNr, w annals.WriteID, n int) (repeated bool) {
				r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: texts(make([]string, n)...), WriteID: w})
				if err != nil || r.SeqNr != after+annals.SeqNr(n) {
					t.Errorf("append of %d events after %d: %v, %v", n, after, r, err)
				}
				return r.Repeated
			}
			store(0, annals.NewWriteID(), 3)
			store(10, invented, 2)
			if !store(10, invented, 2) {
				t.Error("the commit was not recognised")
			}
			store(12, annals.NewWriteID(), 1)
			if last, err := s.Journal().LastSeqNr(ctx, id); last != 13 || err != nil {
				t.Errorf("last number %d, %v", last, err)
			}
			for _, c := range []struct {
				from, to annals.SeqNr
				want     []annals.SeqNr
				kind     error
			}{
				{1, 10, []annals.SeqNr{1, 2, 3}, map[bool]error{true: annals.ErrCorrupt}[name == "akka"]},
				{11, annals.MaxSeqNr, []annals.SeqNr{11, 12, 13}, nil},
				{1, 11, []annals.SeqNr{1, 2, 3}, annals.ErrCorrupt},
				{3, annals.MaxSeqNr, []annals.SeqNr{3}, annals.ErrCorrupt},
			} {
				got, err := numbers(ctx, s, id, c.from, c.to)
				if !slices.Equal(got, c.want) || !errors.Is(err, c.kind) {
					t.Errorf("replay from %d to %d: %v, %v; want %v, %v", c.from, c.to, got, err, c.want, c.kind)
				}
			}
			var state []annals.SeqNr
			_, err = ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(e annals.Event) error {
				state = append(state, e.SeqNr)
				return nil
			})
			if !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("recovered %v, %v; want it corrupt", state, err)
			}
		})
	}
}

// numbers replays events and returns their numbers.
func numbers(ctx context.Context, s annals.Store, id annals.PersistenceID, from, to annals.SeqNr) (all []annals.SeqNr, err error) {
	for e, err := range s.Journal().Replay(ctx, id, from, to) {
		if err != nil {
			return all, err
		}
		all = append(all, e.SeqNr)
	}
	return all, nil
}
