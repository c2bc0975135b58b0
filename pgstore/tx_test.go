package pgstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// The caller's rows and the store's are one transaction, which only the store ends.
func TestTxOfTheCaller(t *testing.T) {
	t.Parallel()
	s, url := users(t, pgstore.Options{}, nil, bindName)
	write := func(fail error) error {
		return s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
			if tx.Commit(ctx) == nil || tx.Rollback(ctx) == nil {
				t.Error("the function ended the transaction")
			}
			if _, err := tx.Exec(ctx, "UPDATE counts SET n = n + 1"); err != nil {
				return err
			}
			if _, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}}); err != nil {
				return err
			}
			_, err := in.States().Put(ctx, annals.StateWrite{ID: "User|1", Payload: text("x")})
			return errors.Join(err, fail)
		})
	}
	broken := errors.New("fails")
	wantKind(t, write(broken), broken)
	const sum = "SELECT (SELECT n FROM counts) + (SELECT count(*) FROM event_journal) * 10 + (SELECT count(*) FROM users) * 100"
	if n := count(t, url, sum); n != 0 {
		t.Errorf("after a rollback: %d", n)
	}
	if err := write(nil); err != nil {
		t.Error(err)
	}
	if n := count(t, url, sum); n != 111 {
		t.Errorf("after a commit: %d", n)
	}
	wantKind(t, write(nil), annals.ErrConflict)
}

// A transaction ends after its time-out, also when its function does not look at its context.
func TestTxTimeout(t *testing.T) {
	t.Parallel()
	s, url := users(t, pgstore.Options{WriteTimeout: 200 * time.Millisecond}, nil, bindName)
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, _ annals.Store) error {
		_, _ = tx.Exec(ctx, "UPDATE counts SET n = n + 1") // an error, where the transaction took that long to begin
		<-ctx.Done()
		return nil
	})
	wantKind(t, err, annals.ErrUnavailable)
	wantKind(t, err, context.DeadlineExceeded)
	if n := count(t, url, "SELECT n FROM counts"); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// A read that the server refuses leaves the transaction as it was.
func TestTxContinuesAfterARefusedRead(t *testing.T) {
	t.Parallel()
	s, url := users(t, pgstore.Options{}, nil, bindName)
	run(t, url, "ALTER TABLE snapshot RENAME TO elsewhere")
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		if _, err := tx.Exec(ctx, "UPDATE counts SET n = n + 1"); err != nil {
			return err
		}
		if _, _, err := in.Snapshots().Latest(ctx, "T|1", annals.SnapshotCriteria{}); err == nil {
			t.Error("a snapshot was read from a table that is not there")
		}
		_, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	})
	if n := count(t, url, "SELECT (SELECT n FROM counts) + (SELECT count(*) FROM event_journal) * 10"); err != nil || n != 11 {
		t.Errorf("%v, and %d is stored, want 11", err, n)
	}
}

// A write that the server refuses leaves the transaction as it was, whether its statements are new to the connection or not.
func TestTxContinuesAfterARefusedWrite(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"new": 0, "known": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := users(t, pgstore.Options{}, nil, bindName)
			save := func(ctx context.Context, in annals.Store) error {
				return in.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: "T|1", SeqNr: 1, Time: time.Now()}}})
			}
			for range before {
				if err := s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error { return save(ctx, in) }); err != nil {
					t.Fatal(err)
				}
			}
			run(t, url, "ALTER TABLE akka_projection_timestamp_offset_store RENAME TO elsewhere")
			err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
				if _, err := tx.Exec(ctx, "UPDATE counts SET n = n + 1"); err != nil {
					return err
				}
				if err := save(ctx, in); err == nil {
					t.Error("an offset was saved in a table that is not there")
				}
				_, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}})
				return err
			})
			if n := count(t, url, "SELECT (SELECT n FROM counts) + (SELECT count(*) FROM event_journal) * 10"); err != nil || n != 11 {
				t.Errorf("%v, and %d is stored, want 11", err, n)
			}
		})
	}
}

// recorder is an Observer that remembers.
type recorder struct {
	mu    sync.Mutex
	calls []annals.Call
	ended []annals.Result
}

func (r *recorder) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (r *recorder) End(_ context.Context, c annals.Call, result annals.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.ended = append(r.calls, c), append(r.ended, result)
}

func TestObserver(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	s := open(t, pgstore.Options{Observer: r})
	appendOne(t, s, "T|1", 0)
	for _, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Error(err)
		}
		break // one page, one request
	}
	wantKind(t, put(t, s, "T|1", 7, text("x")), annals.ErrConflict)
	want := []string{"append", "replay", "put state"}
	if len(r.calls) != len(want) {
		t.Fatalf("observed %+v", r.calls)
	}
	for i, op := range want {
		c, result := r.calls[i], r.ended[i]
		if c.Op != op || c.Store != "postgres" || c.ID != "T|1" || result.Requests != 1 || result.Duration <= 0 || (result.Err != nil) != (i == 2) {
			t.Errorf("observed %+v, %+v, want %q", c, result, op)
		}
	}
	if r.ended[1].Events != 1 || r.ended[1].Bytes != 1 {
		t.Errorf("the replay: %+v, want one event of one byte", r.ended[1])
	}
}
