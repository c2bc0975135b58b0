package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/pgstore"
)

// guarded runs a transaction that recovers an entity, then calls beside, and appends to another entity, which has after events.
func guarded(t *testing.T, s *pgstore.Store, id, other annals.PersistenceID, after annals.SeqNr, beside func()) error {
	t.Helper()
	return s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
		if _, err := ability.Recover(ctx, in, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); err != nil {
			return err
		}
		beside()
		_, err := in.Journal().Append(ctx, annals.Commit{ID: other, After: after, Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	})
}

// The plugins can remove all events of an entity that has a snapshot. The snapshot is what the transaction has read.
func TestGuardOfASnapshotWithoutEvents(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 5, Payload: text("all")}); err != nil {
		t.Fatal(err)
	}
	if err := guarded(t, s, "T|1", "T|2", 0, func() {}); err != nil {
		t.Errorf("nobody has written: %v", err)
	}
	err := guarded(t, s, "T|1", "T|2", 1, func() { appendOne(t, s, "T|1", 5) })
	wantKind(t, err, annals.ErrConflict)
}

// A transaction can read more entities than the server has locks.
func TestGuardOfManyEntities(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	ids := make([]annals.PersistenceID, 20_000)
	for i := range ids {
		ids[i] = annals.PersistenceID(fmt.Sprintf("T|%05d", i))
	}
	if err := pgstore.Guard(t.Context(), s, ids...); err != nil {
		t.Error(err)
	}
	appendOne(t, s, ids[len(ids)-1], 0)
	wantKind(t, pgstore.Guard(t.Context(), s, ids...), annals.ErrConflict)
}

// The guard looks at what others have committed since the transaction began. Where the server does not show that, the transaction is refused.
func TestGuardOfAnotherIsolation(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
			return err
		}
		if _, err := in.Journal().LastSeqNr(ctx, "T|1"); err != nil {
			return err
		}
		appendOne(t, s, "T|1", 0)
		_, err := in.Journal().Append(ctx, annals.Commit{ID: "T|2", Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	})
	wantKind(t, err, annals.ErrInvalid)
}
