package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
)

// timed is a store that notes when the events of its transactions have been handled.
type timed[T any] struct {
	projection.TxStore[T]
	mu      sync.Mutex
	acked   map[annals.Offset]time.Time
	handled map[annals.Offset]time.Time
	awaited map[annals.Offset]time.Time // when Await has returned, of the events of one writer
}

type handledKey struct{}

// InTx is ability.Transactor.
func (s *timed[T]) InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error {
	var offsets []annals.Offset // of the events that fn handles
	if err := s.TxStore.InTx(context.WithValue(ctx, handledKey{}, &offsets), fn); err != nil {
		return err
	}
	s.note(s.handled, offsets...)
	return nil
}

func (s *timed[T]) note(when map[annals.Offset]time.Time, offsets ...annals.Offset) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offsets {
		o.Time = o.Time.UTC()
		when[o] = now
	}
}

// latency appends 500 events a second for some seconds, from ten writers, while a projection handles them. It returns how long that takes, and
// how much later Await returns.
func latency[T any](ctx context.Context, store projection.TxStore[T], handle func(ctx context.Context, tx T, es []envelope) error) (handled, awaited float64, err error) {
	const writers, each, seconds = 10, 50, 6
	s := &timed[T]{TxStore: store, acked: map[annals.Offset]time.Time{}, handled: map[annals.Offset]time.Time{}, awaited: map[annals.Offset]time.Time{}}
	r, err := projection.ExactlyOnceGrouped("latency", sourceOf(store), s, func(ctx context.Context, tx T, es []envelope) error {
		offsets := ctx.Value(handledKey{}).(*[]annals.Offset)
		for _, e := range es {
			*offsets = append(*offsets, e.Offset())
		}
		return handle(ctx, tx, es)
	}, projection.Options{Logger: quiet})
	if err != nil {
		return 0, 0, err
	}
	elsewhere := projection.NewControl(store, "latency") // as in another process
	stop := begin(ctx, r)
	defer func() { err = errors.Join(err, stop()) }()
	errs := make([]error, writers)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			id := annals.NewPersistenceID("Figure", fmt.Sprintf("%016x", uint64(w+1)*0x9e3779b97f4a7c15))
			ticks := time.NewTicker(time.Second / each)
			defer ticks.Stop()
			for n := annals.SeqNr(0); n < each*seconds && errs[w] == nil; n++ {
				var receipt annals.Receipt
				if receipt, errs[w] = store.Journal().Append(ctx, annals.Commit{ID: id, After: n, Events: []annals.NewEvent{{Payload: figurePayload}}}); errs[w] == nil && n >= 2*each { // the projection has begun
					event := annals.Offset{Time: receipt.Time, ID: id, SeqNr: receipt.SeqNr}
					s.note(s.acked, event)
					if w == 0 {
						errs[w] = elsewhere.Await(ctx, store, id, receipt.SeqNr)
						s.note(s.awaited, event)
					}
				}
				<-ticks.C
			}
		})
	}
	writing.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	if err := r.CatchUp(ctx); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.acked {
		if _, ok := s.handled[o]; !ok {
			return 0, 0, fmt.Errorf("event %d of %s was not handled", o.SeqNr, o.ID)
		}
	}
	return percentile(99, s.acked, s.handled), percentile(90, s.handled, s.awaited), nil
}

// percentile is in milliseconds, of the times from one to the other.
func percentile(n int, from, to map[annals.Offset]time.Time) float64 {
	var took []float64
	for o, began := range from {
		if ended, ok := to[o]; ok {
			took = append(took, max(0, ended.Sub(began).Seconds()*1000))
		}
	}
	slices.Sort(took)
	return took[len(took)*n/100]
}

// latencySQLite and latencyPostgres return one of the two results of latency.
func latencySQLite(one func(handled, awaited float64, err error) (float64, error)) func(ctx context.Context, b *sqliteBench) (float64, error) {
	return func(ctx context.Context, b *sqliteBench) (float64, error) {
		if err := b.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error { return sqliteTable(ctx, tx, "live") }); err != nil {
			return 0, err
		}
		return one(latency(ctx, b.store, insertSQLite("live")))
	}
}

func latencyPostgres(one func(handled, awaited float64, err error) (float64, error)) func(ctx context.Context, b *postgresBench) (float64, error) {
	return func(ctx context.Context, b *postgresBench) (float64, error) {
		if err := b.table(ctx, "live"); err != nil {
			return 0, err
		}
		return one(latency(ctx, b.store, insertPostgres("live")))
	}
}

func handledIn(handled, _ float64, err error) (float64, error) { return handled, err }
func awaitedIn(_, awaited float64, err error) (float64, error) { return awaited, err }

// requests counts the requests of a store to its server.
type requests struct{ sent atomic.Int64 }

// Start is annals.Observer.
func (*requests) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

// End is annals.Observer.
func (o *requests) End(_ context.Context, _ annals.Call, r annals.Result) {
	o.sent.Add(int64(r.Requests))
}

// take returns how many were sent since the last take.
func (o *requests) take() int64 { return o.sent.Swap(0) }

// idling returns how many requests a second and range a projection without new events sends. o is the Observer of store.
func idling(ctx context.Context, store annals.Store, o *requests) (float64, error) {
	if err := errors.Join(fill(ctx, store, 200), settle(ctx, store)); err != nil {
		return 0, err
	}
	r, err := projection.AtLeastOnce("idle", sourceOf(store), store, func(context.Context, envelope) error { return nil }, projection.Options{Ranges: 4, Logger: quiet})
	if err != nil {
		return 0, err
	}
	if err := r.CatchUp(ctx); err != nil {
		return 0, err
	}
	stop := begin(ctx, r)
	const settles, counted = 10 * time.Second, 36 * time.Second // several polls
	_ = backoff.Sleep(ctx, settles)
	o.take()
	_ = backoff.Sleep(ctx, counted)
	spent := o.take()
	return float64(spent) / counted.Seconds() / 4, errors.Join(stop(), ctx.Err())
}

// begin runs r until stop is called, which waits for its end and returns the error of Run.
func begin(ctx context.Context, r *projection.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// idle returns the requests a second and range of the store that sends the most.
func idle(ctx context.Context) (float64, error) {
	stores := []func(ctx context.Context) (float64, error){onPostgres(idlePostgres), idleDynamoDB}
	each, errs := make([]float64, len(stores)), make([]error, len(stores))
	var all sync.WaitGroup
	for i, run := range stores {
		all.Go(func() { each[i], errs[i] = run(ctx) })
	}
	all.Wait()
	return slices.Max(each), errors.Join(errs...)
}

func idlePostgres(ctx context.Context, b *postgresBench) (float64, error) {
	pool, err := b.bare(ctx, 4)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	o := &requests{}
	store, err := pgstore.Open(ctx, pool, pgstore.Options{Tables: pgstore.Tables{Schema: "annals_figures"}, Observer: o})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return idling(ctx, store, o)
}

func idleDynamoDB(ctx context.Context) (float64, error) {
	o := &requests{}
	return onDynamo(false, lateLayout, dynamostore.Options{Observer: o}, func(ctx context.Context, _ *dynamoBench, store *dynamostore.Store) (float64, error) {
		return idling(ctx, store, o)
	})(ctx)
}
