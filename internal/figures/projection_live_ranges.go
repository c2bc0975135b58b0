package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/projection"
)

// live alternates between projections with so many ranges and with one range, while 100 events a second are appended. It returns the
// ratio of the processor time that spent counts, with that of the appends.
func live[T any](ctx context.Context, store projection.TxStore[T], ranges int, spent func() float64, handle func(ctx context.Context, tx T, es []envelope) error) (float64, error) {
	const entities, events, turns = 200, 300, 5
	var last [entities]annals.SeqNr
	run := func(ranges int) (cost float64, err error) {
		var handled atomic.Int64
		r, err := projection.ExactlyOnceGrouped(fmt.Sprint("live ", ranges), sourceOf(store), store, func(ctx context.Context, tx T, es []envelope) error {
			handled.Add(int64(len(es)))
			return handle(ctx, tx, es)
		}, projection.Options{Ranges: ranges, Logger: quiet})
		if err != nil {
			return 0, err
		}
		stop := begin(ctx, r)
		defer func() { err = errors.Join(err, stop()) }()
		if err := backoff.Sleep(ctx, 2*time.Second); err != nil { // the ranges are taken, and what the other side wrote is read
			return 0, err
		}
		handled.Store(0)
		before := spent()
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for n := range events {
			<-ticks.C
			i := n * 7 % entities
			id := annals.NewPersistenceID("Figure", fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15))
			if err := appendOne(ctx, store, id, last[i]); err != nil {
				return 0, err
			}
			last[i]++
		}
		for handled.Load() < events {
			if err := backoff.Sleep(ctx, 10*time.Millisecond); err != nil {
				return 0, err
			}
		}
		return spent() - before, nil
	}
	return costRatio(turns, func() (float64, error) { return run(ranges) }, func() (float64, error) { return run(1) })
}

func livePostgres(ranges int) func(ctx context.Context, b *postgresBench) (float64, error) {
	return func(ctx context.Context, b *postgresBench) (float64, error) {
		if err := b.table(ctx, "live"); err != nil {
			return 0, err
		}
		spent, err := withServer(ctx, b.pool)
		if err != nil {
			return 0, err
		}
		return live(ctx, b.store, ranges, spent, insertPostgres("live"))
	}
}
