package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

func TestGuardCosts(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	s := openCommit(t, client(t), dynamostore.Options{Observer: seen})
	for _, c := range []struct {
		reads, writes []annals.PersistenceID
		requests      int
		units         float64
	}{
		{nil, nil, 0, 0},
		{nil, []annals.PersistenceID{"Thing|a"}, 1, 2},
		{[]annals.PersistenceID{"Thing|a"}, []annals.PersistenceID{"Thing|b"}, 1, 4},
		{[]annals.PersistenceID{"Thing|a", "Thing|none"}, []annals.PersistenceID{"Thing|c"}, 1, 6},
		{[]annals.PersistenceID{"Thing|d"}, []annals.PersistenceID{"Thing|d"}, 1, 2}, // the write is on condition of what was read
		{[]annals.PersistenceID{"Thing|a", "Thing|b"}, nil, 1, 4},
	} {
		err := s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
			for _, id := range c.reads {
				if _, err := in.Journal().LastSeqNr(ctx, id); err != nil {
					return err
				}
			}
			for _, id := range c.writes {
				if _, err := in.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("x")}); err != nil {
					return err
				}
			}
			return nil
		})
		if r := seen.last(); err != nil || r.Op != "transaction" || r.Requests != c.requests || r.WriteUnits != c.units || r.ReadUnits != 0 {
			t.Errorf("reads %v, writes %v: %s with %d requests, %v write and %v read units, %v; want %d and %v", c.reads, c.writes, r.Op, r.Requests, r.WriteUnits, r.ReadUnits, err, c.requests, c.units)
		}
	}
}

// change appends an event, or writes the state, beside a transaction.
func change(t *testing.T, s *dynamostore.Store, id annals.PersistenceID, after annals.SeqNr, state bool) {
	t.Helper()
	var err error
	if state {
		_, err = s.States().Put(t.Context(), annals.StateWrite{ID: id, After: after, Payload: text("secret").Payload})
	} else {
		_, err = s.Journal().Append(t.Context(), annals.Commit{ID: id, After: after, Events: texts("secret")})
	}
	if err != nil {
		t.Error(err)
	}
}

// What another process has changed after it was read is a conflict, also beside a condition of the caller's own that fails.
func TestGuardedReads(t *testing.T) {
	t.Parallel()
	s, o := openCommit(t, client(t), dynamostore.Options{}), newOwn(t)
	for n, c := range []struct {
		state, changes, own bool
		kind                error
	}{
		{},
		{own: true, kind: annals.ErrConstraint},
		{changes: true, kind: annals.ErrConflict},
		{changes: true, own: true, kind: annals.ErrConflict},
		{state: true},
		{state: true, changes: true, kind: annals.ErrConflict},
	} {
		read, written := annals.PersistenceID(fmt.Sprintf("Read|%d", n)), annals.PersistenceID(fmt.Sprintf("Written|%d", n))
		change(t, s, read, 0, c.state)
		err := s.InTx(t.Context(), func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) (err error) {
			if c.state {
				_, _, err = in.States().Get(ctx, read)
			} else {
				_, err = in.Journal().LastSeqNr(ctx, read)
			}
			if err != nil {
				return err
			}
			if c.changes {
				change(t, s, read, 1, c.state)
			}
			if c.own {
				tx.Add(o.present("nothing"))
			}
			_, err = in.Journal().Append(ctx, annals.Commit{ID: written, Events: texts("x")})
			return err
		})
		if !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if e := (*annals.Error)(nil); errors.As(err, &e) && c.changes && (e.ID != read || c.state && e.Last != 2 || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: the error is of %s, the last number %d: %v", c, e.ID, e.Last, err)
		}
		if last, err := s.Journal().LastSeqNr(t.Context(), written); (last == 1) != (c.kind == nil) || err != nil {
			t.Errorf("%+v: the last number is %d, %v", c, last, err)
		}
	}
}

// Guards are items of the transaction.
func TestTooManyGuards(t *testing.T) {
	t.Parallel()
	s := openCommit(t, client(t), dynamostore.Options{})
	for reads, kind := range map[int]error{99: nil, 100: annals.ErrTooLarge} {
		err := s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
			for n := range reads {
				if _, _, err := in.States().Get(ctx, annals.PersistenceID(fmt.Sprintf("Read|%d", n))); err != nil {
					return err
				}
			}
			_, err := in.Journal().Append(ctx, annals.Commit{ID: "Written|1", Events: texts("x")})
			return err
		})
		if !errors.Is(err, kind) || (err == nil) != (kind == nil) {
			t.Errorf("%d reads: %v, want %v", reads, err, kind)
		}
	}
}

// A transaction that was stored is recognised, although what it had read has changed since, also by itself.
func TestGuardsOfARepetition(t *testing.T) {
	t.Parallel()
	s := openCommit(t, client(t), dynamostore.Options{})
	w := annals.NewWriteID()
	for after := range annals.SeqNr(2) {
		err := s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
			for _, id := range []annals.PersistenceID{"Read|1", "Written|1"} {
				if _, err := in.Journal().LastSeqNr(ctx, id); err != nil {
					return err
				}
			}
			if after > 0 {
				change(t, s, "Read|1", 0, false)
			}
			_, err := in.Journal().Append(ctx, annals.Commit{ID: "Written|1", Events: texts("x"), WriteID: w})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), "Written|1"); last != 1 || err != nil {
		t.Errorf("the last number is %d, %v", last, err)
	}
}

// A transaction may write the item that tells whether what it has read has changed.
func TestGuardsOfWrittenItems(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]func() dynamostore.Layout{"esa": newESA(esa.Layout{Shards: 3, WriteIDs: true}), "rust 5": newRust5(0, true), "akka0": newAkka0(true)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := dynamostore.Open(t.Context(), client(t), layout(), dynamostore.Options{CreateTables: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			first := annals.Commit{ID: "Read|1", Events: texts("x", "y")}
			if s.Capabilities().Snapshots {
				first.Snapshot = &annals.Snapshot{ID: first.ID, SeqNr: 2, Payload: text("state").Payload}
			}
			if _, err := s.Journal().Append(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			deletes := func(changes bool) error {
				return s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
					if _, err := in.Journal().LastSeqNr(ctx, first.ID); err != nil {
						return err
					}
					if changes {
						change(t, s, first.ID, 2, false)
					}
					return in.Journal().DeleteTo(ctx, first.ID, 1)
				})
			}
			if err := deletes(true); !errors.Is(err, annals.ErrConflict) {
				t.Errorf("a delete of what was read, beside an append: %v, want ErrConflict", err)
			}
			if got := len(replay(t.Context(), t, s, first.ID, 1, annals.MaxSeqNr)); got != 3 {
				t.Errorf("%d events are left, want 3", got)
			}
			if err := deletes(false); err != nil {
				t.Error(err)
			}
			if got := len(replay(t.Context(), t, s, first.ID, 1, annals.MaxSeqNr)); got != 2 {
				t.Errorf("%d events are left, want 2", got)
			}
		})
	}
}

// Without a sort key ids share the row of a state. The others have none.
func TestGuardsOfOneRow(t *testing.T) {
	t.Parallel()
	layout := newJ5ik2o(j5ik2o.Journal{}, false)().(j5ik2o.Layout)
	layout.State.NoSortKey, layout.State.ShardCount = true, 1
	s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	change(t, s, "Thing|b", 0, true)
	for _, changes := range []bool{false, true} {
		err := s.InTx(t.Context(), func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
			for _, id := range []annals.PersistenceID{"Thing|a", "Thing|b", "Thing|c"} {
				if st, _, err := in.States().Get(ctx, id); err != nil || (st.Revision == 1) != (id == "Thing|b") {
					return fmt.Errorf("revision %d of %s, %w", st.Revision, id, err)
				}
			}
			if changes {
				change(t, s, "Thing|b", 1, true)
			}
			return nil
		})
		if changes != errors.Is(err, annals.ErrConflict) || !changes && err != nil {
			t.Errorf("changes %v: %v", changes, err)
		}
	}
}
