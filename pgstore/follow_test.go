package pgstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// An open transaction holds Through back. Its event is delivered when it commits, also to a worker that started anew.
func TestFollowBesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	written, ended := make(chan annals.Receipt), make(chan error, 1)
	opened, end := context.WithCancel(t.Context())
	defer end()
	const slowID, fastID = followtest.Type + "|slow", followtest.Type + "|fast"
	go func() {
		ended <- s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
			r, err := in.Journal().Append(ctx, annals.Commit{ID: slowID, Events: []annals.NewEvent{{Payload: text("1")}}})
			if err != nil {
				return err
			}
			written <- r
			<-opened.Done()
			return nil
		})
	}()
	r := <-written
	slow := annals.Offset{Time: r.Time, ID: slowID, SeqNr: r.SeqNr}
	w := followtest.NewWorker(s)
	w.Begin(t)
	const fast = 30
	for i := range annals.SeqNr(fast) {
		appendOne(t, s, fastID, i)
		if i == fast/2 {
			w.Begin(t)
		}
		for w.Seen[fastID] <= i {
			if b := w.Next(t); b.Through.Compare(slow) >= 0 {
				t.Fatalf("Through is %v, and %v is not committed", b.Through, slow)
			}
		}
	}
	w.Begin(t)
	if b := w.Next(t); len(b.Events) > 0 || !b.CaughtUp || b.Through.Compare(slow) >= 0 {
		t.Fatalf("got %+v, want no event, caught up, Through before %v", b, slow)
	}
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for through := (annals.Offset{}); w.Seen[slowID] == 0 || through.Compare(slow) < 0; { // other tests may have open transactions, too
		through = w.Next(t).Through
	}
}

// While others write in short and long transactions, workers that start anew get every event once, in order.
func TestFollowTransactions(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true})
	followtest.Feeds(t, s, func(ctx context.Context, w *followtest.Writer) error {
		for range 25 {
			err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
				for range 1 + w.Random.IntN(3) {
					if err := w.Append(ctx, in); err != nil {
						return err
					}
					if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, float64(w.Random.IntN(40))/1000); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A clock of the server that jumps an hour forward and back does not make a follower skip what is stored when it is right again.
func TestFollowWhileTheClockJumps(t *testing.T) {
	t.Parallel()
	h := horizons{T: t, url: postgres.Database(t)}
	conn := h.session()
	h.exec(conn, `CREATE SCHEMA clock; CREATE TABLE clock.ahead AS SELECT interval '0' AS by;
		CREATE FUNCTION clock.transaction_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.transaction_timestamp() + by FROM clock.ahead';
		CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM clock.ahead'`)
	s := openAt(t, with(t, h.url, "search_path=clock,pg_catalog,public"), pgstore.Options{CreateTables: true})
	w := followtest.NewWorker(s)
	w.Begin(t)
	n := 0
	for _, jump := range []string{"0", "1 hour", "0"} {
		h.exec(conn, "UPDATE clock.ahead SET by = '"+jump+"'")
		for range 100 {
			n++
			appendOne(t, s, annals.NewPersistenceID(followtest.Type, strconv.Itoa(n)), 0)
		}
		for until, through := h.clock(), (time.Time{}); len(w.Seen) < n || through.Before(until); {
			if through = w.Next(t).Through.Time; through.After(h.clock()) {
				t.Fatalf("the clock is %s ahead: everything is handed over through %v", jump, through)
			}
		}
	}
}
