package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	follow "github.com/annals-go/annals/query"
)

// follower is a worker that saves its position with each batch, and demands that no event comes twice.
type follower struct {
	s    *pgstore.Store
	feed *follow.Feed
	seen map[annals.PersistenceID]annals.SeqNr
}

// begin goes on from the saved position, as a new process does.
func (f *follower) begin(t *testing.T) {
	t.Helper()
	from, err := f.s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
	if err != nil {
		t.Fatal(err)
	}
	if f.feed, err = follow.NewFeed(f.s, annals.Filter{Type: "T"}, from[0], follow.Options{Poll: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
}

// next handles a batch.
func (f *follower) next(t *testing.T) follow.Batch {
	t.Helper()
	b, err := f.feed.Next(t.Context(), 50)
	if err != nil {
		t.Fatal(err)
	}
	p := annals.Progress{Projection: "p", Through: b.Through, Once: true}
	for _, e := range b.Events {
		if e.SeqNr != f.seen[e.ID]+1 {
			t.Errorf("%s: number %d after %d", e.ID, e.SeqNr, f.seen[e.ID])
		}
		f.seen[e.ID] = e.SeqNr
		p.Offsets = append(p.Offsets, e.Offset())
	}
	if err := f.s.Offsets().Save(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return b
}

// An open transaction holds Through back, and its event is handed over when it commits, also to a worker that began anew.
func TestFollowBesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	written, end, ended := make(chan annals.Receipt), make(chan struct{}), make(chan error)
	go func() {
		ended <- s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
			r, err := in.Journal().Append(ctx, annals.Commit{ID: "T|slow", Events: []annals.NewEvent{{Payload: text("1")}}})
			if err != nil {
				return err
			}
			written <- r
			<-end
			return nil
		})
	}()
	slow := <-written
	f := &follower{s: s, seen: map[annals.PersistenceID]annals.SeqNr{}}
	f.begin(t)
	const fast = 30
	for i := range annals.SeqNr(fast) {
		appendOne(t, s, "T|fast", i)
		if i == fast/2 {
			f.begin(t)
		}
		for f.seen["T|fast"] <= i {
			if b := f.next(t); !b.Through.Time.Before(slow.Time) {
				t.Fatalf("Through is %v, and an event of %v is not committed", b.Through, slow.Time)
			}
		}
	}
	f.begin(t)
	if b := f.next(t); len(b.Events) > 0 || !b.CaughtUp || !b.Through.Time.Before(slow.Time) {
		t.Fatalf("%+v", b)
	}
	close(end)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for f.seen["T|slow"] == 0 {
		f.next(t)
	}
	for b := (follow.Batch{}); b.Through.Time.Before(slow.Time); { // other tests may have open transactions, too
		b = f.next(t)
	}
}

// Beside writers with short and long transactions, workers that begin anew get every event once, in order.
func TestFollowTransactions(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true})
	const writers, rounds = 6, 25
	var working sync.WaitGroup
	total := make(chan int, writers)
	for w := range writers {
		working.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			last, written := map[annals.PersistenceID]annals.SeqNr{}, 0
			for range rounds {
				err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
					for range 1 + r.IntN(3) {
						id := annals.NewPersistenceID("T", fmt.Sprint(w, "-", r.IntN(4)))
						receipt, err := in.Journal().Append(ctx, annals.Commit{ID: id, After: last[id], Events: newEvents(1 + r.IntN(2))})
						if err != nil {
							return err
						}
						written += int(receipt.SeqNr - last[id])
						last[id] = receipt.SeqNr
						if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, float64(r.IntN(40))/1000); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					break
				}
			}
			total <- written
		})
	}
	go func() { working.Wait(); close(total) }()
	want, writing := 0, true
	f := &follower{s: s, seen: map[annals.PersistenceID]annals.SeqNr{}}
	for n, batches := 0, 0; writing || n < want; batches++ {
		if batches%7 == 0 {
			f.begin(t)
		}
		n += len(f.next(t).Events)
		for more := true; more; {
			select {
			case written, ok := <-total:
				want += written
				if !ok {
					more, writing, total = false, false, nil
				}
			default:
				more = false
			}
		}
	}
	for id, n := range f.seen {
		if last, err := s.Journal().LastSeqNr(t.Context(), id); err != nil || n != last {
			t.Errorf("%s: %d of %d events, %v", id, n, last, err)
		}
	}
}

func newEvents(n int) (events []annals.NewEvent) {
	for i := range n {
		events = append(events, annals.NewEvent{Payload: text(strconv.Itoa(i))})
	}
	return events
}
