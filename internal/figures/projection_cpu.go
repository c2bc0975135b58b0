package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/projection"
)

// live alternates between projections with so many ranges and with one range, while 100 events a second are appended. It returns the
// ratio of the processor time that spent counts, with that of the appends.
func live[T any](ctx context.Context, store projection.TxStore[T], ranges int, spent func() (float64, error), handle func(ctx context.Context, tx T, es []envelope) error) (float64, error) {
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
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(running) }()
		defer func() {
			stop()
			err = errors.Join(err, <-ended)
		}()
		if err := backoff.Sleep(ctx, 2*time.Second); err != nil { // the ranges are taken, and what the other side wrote is read
			return 0, err
		}
		handled.Store(0)
		before, err := spent()
		if err != nil {
			return 0, err
		}
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for n := range events {
			<-ticks.C
			i := n * 7 % entities
			id := annals.NewPersistenceID("Figure", fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15))
			if _, err := store.Journal().Append(ctx, annals.Commit{ID: id, After: last[i], Events: []annals.NewEvent{{Payload: figurePayload}}}); err != nil {
				return 0, err
			}
			last[i]++
		}
		for handled.Load() < events {
			if err := backoff.Sleep(ctx, 10*time.Millisecond); err != nil {
				return 0, err
			}
		}
		after, err := spent()
		return after - before, err
	}
	var ratios []float64
	for turn := range turns + 1 {
		var costs [2]float64
		for i := range costs {
			side := (turn + i) % len(costs)
			var err error
			if costs[side], err = run([]int{ranges, 1}[side]); err != nil {
				return 0, err
			}
		}
		if turn > 0 { // the first warms up
			ratios = append(ratios, costs[0]/costs[1])
		}
	}
	return median(ratios), nil
}

func livePostgres(ranges int) func(ctx context.Context, b *postgresBench) (float64, error) {
	return func(ctx context.Context, b *postgresBench) (float64, error) {
		pool, err := b.bare(ctx, 1)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		if err := postgresTable(ctx, pool, "live"); err != nil {
			return 0, err
		}
		spent, err := withServer(ctx, pool)
		if err != nil {
			return 0, err
		}
		return live(ctx, b.store, ranges, spent, insertPostgres("live"))
	}
}

// withServer returns a function that returns the processor time in nanoseconds of this program and of the processes of the server of
// pool, which runs on this machine.
func withServer(ctx context.Context, pool *pgxpool.Pool) (func() (float64, error), error) {
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	own, err := processOf(filepath.Join("/proc", strconv.Itoa(backend), "stat"))
	if err != nil {
		return nil, fmt.Errorf("the processor time of the server cannot be read: %w", err)
	}
	return func() (float64, error) {
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			return 0, err
		}
		total := processorTime()
		for _, file := range all {
			switch p, err := processOf(file); {
			case err != nil: // it has ended
			case p.pid == own.parent:
				total += p.spent + p.ended
			case p.parent == own.parent:
				total += p.spent
			}
		}
		return total, nil
	}, nil
}

// process is a process of Linux.
type process struct {
	pid, parent  int
	spent, ended float64 // nanoseconds of processor time: its own, and that of children that have ended
}

func processOf(file string) (p process, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	before, after, _ := strings.Cut(string(text), " (")
	fields := strings.Fields(after[strings.LastIndex(after, ")")+1:])
	if len(fields) < 15 {
		return p, fmt.Errorf("%s has %d fields", file, len(fields))
	}
	number := func(s string) int {
		n, failed := strconv.Atoi(s)
		err = errors.Join(err, failed)
		return n
	}
	const tick = 1e7 // of the kernel, in nanoseconds
	p = process{pid: number(before), parent: number(fields[1])}
	p.spent = tick * float64(number(fields[11])+number(fields[12]))
	p.ended = tick * float64(number(fields[13])+number(fields[14]))
	return p, err
}
