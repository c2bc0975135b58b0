package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

func withNotes(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL UNIQUE)`)
	return err
}

func note(ctx context.Context, tx *sql.Tx, text string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO notes VALUES (?)`, text)
	return err
}

var errOwn = errors.New("the function's own")

func TestInTx(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{Init: withNotes})
	notes := func() int { return count(t, s.DB(), `SELECT count(*) FROM notes`) }

	var kept annals.Store
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		kept = in
		mustAppend(t, in, commit("T|1", 0, 2))
		if got := numbers(t, in, "T|1"); len(got) != 2 {
			t.Errorf("inside there are %v", got)
		}
		if got := numbers(t, s, "T|1"); got != nil {
			t.Errorf("outside there are already %v", got)
		}
		return note(ctx, tx, "a")
	})
	if err != nil || notes() != 1 || len(numbers(t, s, "T|1")) != 2 {
		t.Fatal(err, notes(), numbers(t, s, "T|1"))
	}
	_, err = kept.Journal().Append(t.Context(), commit("T|1", 2, 1))
	wantKind(t, err, annals.ErrClosed)
	for _, err := range kept.Journal().Replay(t.Context(), "T|1", 1, 2) {
		wantKind(t, err, annals.ErrClosed)
	}

	err = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		mustAppend(t, in, commit("T|1", 2, 1))
		if err := note(ctx, tx, "b"); err != nil {
			return err
		}
		return errOwn
	})
	e := (*annals.Error)(nil)
	if !errors.Is(err, errOwn) || !errors.As(err, &e) || e.Kind != nil {
		t.Errorf("the function's error came back as %#v", err)
	}

	// A write that fails undoes only itself; the function may continue.
	err = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		_, err := in.Journal().Append(ctx, commit("T|1", 0, 1))
		wantKind(t, err, annals.ErrConflict)
		mustAppend(t, in, commit("T|2", 0, 1))
		return nil
	})
	if err != nil || len(numbers(t, s, "T|2")) != 1 {
		t.Error(err)
	}

	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come through")
			}
		}()
		_ = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
			mustAppend(t, in, commit("T|1", 2, 1))
			panic("of the function")
		})
	}()

	ended := make(chan struct{})
	go func() { // as t.FailNow within fn does
		defer close(ended)
		_ = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
			mustAppend(t, in, commit("T|1", 2, 1))
			runtime.Goexit()
			return nil
		})
	}()
	<-ended

	ctx, cancel := context.WithCancel(t.Context())
	err = s.InTx(ctx, func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		mustAppend(t, in, commit("T|1", 2, 1))
		cancel()
		return nil
	})
	wantKind(t, err, annals.ErrUnavailable)

	if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); last != 2 || err != nil || notes() != 1 {
		t.Errorf("what was rolled back shows: last number %d, %v, %d notes", last, err, notes())
	}
}

// A write to the outer store with the function's context would wait for itself, so it is refused.
func TestInTxRefusesTheOuterStore(t *testing.T) {
	t.Parallel()
	s, other := open(t, sqlitestore.Options{}), open(t, sqlitestore.Options{})
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		_, err := s.Journal().Append(ctx, commit("T|1", 0, 1))
		wantKind(t, err, annals.ErrInvalid)
		wantKind(t, s.InTx(ctx, nil), annals.ErrInvalid)
		_, err = other.Journal().Append(ctx, commit("T|1", 0, 1)) // another store is another matter
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A deferred constraint of the user's own table is ErrConstraint at the COMMIT.
func TestInTxConstraint(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{Init: withNotes})
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		mustAppend(t, in, commit("T|1", 0, 1))
		return errors.Join(note(ctx, tx, "a"), note(ctx, tx, "a"))
	})
	if err == nil || len(numbers(t, s, "T|1")) != 0 {
		t.Error("a constraint did not undo the transaction: ", err)
	}
}

// When a write of the store and the user's tables fails in the middle, nothing of it is kept, and the next transaction succeeds.
func TestInTxStateHalfWritten(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{
		Init: executing(sqlitestore.StateTable("carts", "amount INTEGER CHECK (amount > 0)")),
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Cart": {Table: "carts", Columns: []string{"amount"},
			Bind: func(s annals.State) (annals.Columns, error) { return annals.Columns{"amount": int64(s.Data[0])}, nil }}},
	})
	put := func(in annals.Store, id annals.PersistenceID, amount byte) error {
		_, err := in.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: annals.Payload{SerializerID: 1, Data: []byte{amount}},
			Event: &annals.NewEvent{Payload: payload("1")}})
		return err
	}
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		wantKind(t, put(in, "Cart|1", 0), annals.ErrConstraint) // its event had been inserted already
		return put(in, "Cart|2", 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := numbers(t, s, "Cart|1"); n != nil {
		t.Errorf("the refused write left events %v", n)
	}
	if n := numbers(t, s, "Cart|2"); len(n) != 1 {
		t.Errorf("the write after it left events %v", n)
	}
}

// When SQLite has rolled the transaction back and the function ignores it, nothing that the function writes afterwards is kept.
func TestInTxRolledBackInside(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{Init: executing(`CREATE TABLE notes (text TEXT); CREATE TRIGGER harsh BEFORE INSERT ON notes BEGIN SELECT raise(ROLLBACK, 'no'); END`)})
	for _, writes := range []bool{true, false} {
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
			mustAppend(t, in, commit("T|1", 0, 1))
			if err := note(ctx, tx, "a"); err == nil {
				t.Error("the trigger did nothing")
			}
			if writes {
				_, err := in.Journal().Append(ctx, commit("T|2", 0, 1))
				wantKind(t, err, annals.ErrUnavailable)
			}
			return nil
		})
		wantKind(t, err, annals.ErrUnavailable)
		for _, id := range []annals.PersistenceID{"T|1", "T|2"} {
			if got := numbers(t, s, id); got != nil {
				t.Errorf("%s has %v", id, got)
			}
		}
	}
	mustAppend(t, s, commit("T|1", 0, 1))
}
