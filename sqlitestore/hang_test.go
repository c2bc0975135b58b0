package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// Code of the user in a transaction does not return when its context ends: the transaction is undone, and other writers of the file go on.
func TestCodeThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	type code = func(ctx context.Context, tx *sql.Tx) error
	inTx := func(ctx context.Context, s *sqlitestore.Store, hang code) error {
		return s.InTx(ctx, func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
			mustAppend(t, in, commit("T|1", 0, 2))
			if err := note(ctx, tx, "a"); err != nil {
				return err
			}
			failed := hang(ctx, tx)
			if _, err := in.Journal().Append(context.WithoutCancel(ctx), commit("T|1", 2, 1)); !errors.Is(err, annals.ErrUnavailable) {
				t.Errorf("a write of the store after the end: %v", err)
			}
			if _, err := in.Journal().LastSeqNr(context.WithoutCancel(ctx), "T|1"); !errors.Is(err, annals.ErrUnavailable) {
				t.Errorf("a read of the store after the end: %v", err)
			}
			return failed
		})
	}
	put := func(ctx context.Context, s annals.Store, id annals.PersistenceID) error {
		_, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: payload("1"), Event: &annals.NewEvent{Payload: payload("1")}})
		return err
	}
	for name, run := range map[string]func(ctx context.Context, s *sqlitestore.Store, hang code) error{
		"a function": inTx,
		"a function that ends it": func(ctx context.Context, s *sqlitestore.Store, hang code) error {
			return inTx(ctx, s, func(ctx context.Context, tx *sql.Tx) error {
				_ = tx.Rollback()
				return hang(ctx, tx)
			})
		},
		"a function that reads rows": func(ctx context.Context, s *sqlitestore.Store, hang code) error {
			return inTx(ctx, s, func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(context.WithoutCancel(ctx), "SELECT text FROM notes")
				if err != nil {
					return err
				}
				defer func() { _ = rows.Close() }()
				if !rows.Next() {
					return errors.Join(rows.Err(), errors.New("no row"))
				}
				return hang(ctx, tx)
			})
		},
		"a change handler": func(ctx context.Context, s *sqlitestore.Store, _ code) error { return put(ctx, s, "Slow|1") },
		"a change handler in a transaction": func(ctx context.Context, s *sqlitestore.Store, _ code) error {
			return s.InTx(ctx, func(ctx context.Context, _ *sql.Tx, in annals.Store) error {
				mustAppend(t, in, commit("T|1", 0, 2))
				if err := put(ctx, in, "Slow|1"); !errors.Is(err, annals.ErrUnavailable) {
					t.Errorf("a change whose handler did not return: %v", err)
				}
				return put(context.WithoutCancel(ctx), in, "Slow|2")
			})
		},
		"a change handler that waits for its context": func(ctx context.Context, s *sqlitestore.Store, _ code) error {
			return s.InTx(ctx, func(ctx context.Context, _ *sql.Tx, in annals.Store) error {
				return put(context.WithoutCancel(ctx), in, "Patient|1")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "annals.db")
			entered, leave := make(chan struct{}, 9), make(chan struct{})
			hang := func(ctx context.Context, tx *sql.Tx) error {
				entered <- struct{}{}
				<-leave
				return note(context.WithoutCancel(ctx), tx, "b")
			}
			s := openAt(t, path, sqlitestore.Options{Init: withNotes, Checksums: true, StateTypes: map[string]annals.StateType[*sql.Tx]{
				"Slow": {OnChange: func(ctx context.Context, tx *sql.Tx, _ annals.State) error { return hang(ctx, tx) }},
				"Patient": {OnChange: func(ctx context.Context, _ *sql.Tx, _ annals.State) error {
					entered <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}}}})
			other := openAt(t, path, sqlitestore.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, s, hang) }()
			<-entered
			cancel()
			within, end := context.WithTimeout(t.Context(), 10*time.Second)
			defer end()
			for n := range annals.SeqNr(5) { // from a writer that waits, and from one of another store
				for id, s := range map[annals.PersistenceID]annals.Store{"T|2": s, "T|3": other} {
					if _, err := s.Journal().Append(within, commit(id, n, 1)); err != nil {
						t.Errorf("%s: writers are held up: %v", id, err)
					}
				}
			}
			close(leave)
			wantUndone(t, <-ended)
			mustAppend(t, s, commit("T|4", 0, 1))
			if n := count(t, s.DB(), "SELECT count(*) FROM notes"); n != 0 {
				t.Errorf("%d notes", n)
			}
			for _, id := range []annals.PersistenceID{"T|1", "Slow|1", "Slow|2", "Patient|1"} {
				if got := numbers(t, s, id); got != nil {
					t.Errorf("%s has %v", id, got)
				}
			}
		})
	}
}

// wantUndone wants what a function gets that goes on after its transaction was undone.
func wantUndone(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, annals.ErrUnavailable) && !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the transaction ended with %v", err)
	}
}

// The context ends at any moment of a transaction that goes on writing.
func TestContextEndsWhileATransactionWrites(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{Init: withNotes, Checksums: true})
	written := 0
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		ends := func() { time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel) }
		if i%2 == 0 {
			ends()
		}
		err := s.InTx(ctx, func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
			defer func() { written++ }()
			if i%2 == 1 { // also where a transaction takes long to begin
				ends()
			}
			ctx = context.WithoutCancel(ctx)
			for n := annals.SeqNr(0); ; n++ {
				if _, err := in.Journal().Append(ctx, commit("T|1", n, 1)); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "INSERT INTO notes VALUES (?)", int64(n)); err != nil {
					return err
				}
			}
		})
		wantUndone(t, err)
		mustAppend(t, s, commit("T|2", annals.SeqNr(i), 1))
		cancel()
	}
	if got := numbers(t, s, "T|1"); got != nil || count(t, s.DB(), "SELECT count(*) FROM notes") != 0 || written < 50 {
		t.Errorf("of transactions that were undone there are %v, %d of 100 began", got, written)
	}
}
