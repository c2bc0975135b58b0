package calendar

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/lease"
)

const (
	batch    = 1024 // timers that fire gets at most
	together = 64   // chunks that are read, or written, at the same time, so that stores can group the requests
)

// Run hands over timers that are due until ctx ends, and returns nil then. One of the processes that call it does so at a time, and another one goes
// on when it stops or is killed. A timer is due by the clock of that process: when two clocks differ by a second, a timer may come a second
// earlier or later by the other one. When a clock was in the future and is set back, the timers up to that time have been handed over, and all later ones come in
// time.
//
// fire gets up to 1,024 timers, those that are due first come first as far as they are read together. When it returns an error or panics, it gets the same timers again, at intervals of
// up to half a second, and all others wait. A timer is handed over again when the process stops before it has noted that, or at the same time
// in two processes, when one was suspended or has lost its lease. fire is not called concurrently by one Run. Its context ends with ctx only: a
// process that has lost its lease completes what it has begun. Otherwise a batch that takes longer than a lease lasts on a slow store would be
// begun again for ever.
//
// Errors of the store are logged, the 1st, 2nd, 4th, 8th … of many, and tried again. Run ends with ErrClosed and ErrUnsupported of the store.
func (c *Calendar) Run(ctx context.Context, fire func(ctx context.Context, ts []Timer) error) error {
	if fire == nil {
		return &annals.Error{Op: "run calendar " + quote.Text(c.name), Kind: annals.ErrInvalid, Err: errors.New("the function is missing")}
	}
	o := lease.Options{Lease: c.o.Lease, Logger: c.o.Logger}
	return lease.Run(ctx, c.store, "annals.calendar/"+c.name, o, func(held context.Context, _ annals.SeqNr) error {
		return (&runner{c: c, fire: fire, held: held, read: -1}).run(ctx)
	})
}

// runner hands over timers.
type runner struct {
	c    *Calendar
	fire func(ctx context.Context, ts []Timer) error
	held context.Context // ends when another process may take over
	read int64           // the Pass whose Taking it has read
	done bool            // it has handed over a batch, or tried to

	due, later []Timer // have been read and not handed over, or not put into other slots
	cuts       []cut
}

// cut is a chunk that was read.
type cut struct {
	chunk    document.Document[chunk]
	revision annals.SeqNr
	end      int64 // of what was read
}

func (r *runner) run(ctx context.Context) error {
	for failures := 0; ; {
		err := r.look(ctx)
		switch {
		case r.held.Err() != nil:
			return nil
		case errors.Is(err, annals.ErrClosed) || errors.Is(err, annals.ErrUnsupported):
			return err
		}
		wait := r.c.o.Precision
		if err == nil {
			failures, wait = 0, r.c.until(r.c.now())
		} else {
			wait = min(wait, backoff.Delay(failures))
			failures++
			r.log(ctx, "annals: timers cannot be read", failures, err)
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-r.c.added:
		case <-r.held.Done():
		}
		next.Stop()
	}
}

// log logs some of the failures.
func (r *runner) log(ctx context.Context, text string, try int, err error) {
	if backoff.Seldom(try) && ctx.Err() == nil && !errors.Is(err, annals.ErrConflict) {
		r.c.o.Logger.LogAttrs(ctx, slog.LevelWarn, text, slog.String("calendar", r.c.name), slog.Int("try", try), slog.Any("error", err))
	}
}

// look hands over what is due.
func (r *runner) look(ctx context.Context) error {
	if err := r.c.begin(ctx); err != nil {
		return err
	}
	record, revision, err := r.c.record().Load(ctx, r.c.store)
	if err != nil {
		return err
	}
	isRead := record.Pass == r.read
	if record.take(r.c.ticks(r.c.now()), isRead) {
		if err := r.c.record().Save(ctx, r.c.store, revision, record); err != nil {
			return err
		}
	} else if isRead {
		return nil
	}
	r.due, r.later, r.cuts = nil, nil, nil
	// This comes after the record was written: see the comment of the package.
	var chunks []cut
	for _, s := range record.Taking {
		for number := range s.Chunks {
			chunks = append(chunks, cut{chunk: r.c.chunk(s.place(), number)})
		}
	}
	var faults []error // of chunks that cannot be read, which do not hold up the others
	for some := range slices.Chunk(chunks, together) {
		faults = append(faults, r.chunks(ctx, some))
		if r.leaves(ctx) {
			return r.held.Err()
		}
	}
	if err := errors.Join(append(faults, r.flush(ctx))...); err != nil {
		return err
	}
	r.read = record.Pass
	return nil
}

// chunks reads some chunks.
func (r *runner) chunks(ctx context.Context, some []cut) error {
	read := make([]chunk, len(some))
	err := each(some, func(i int, t *cut) error {
		return retried(ctx, func() (err error) {
			read[i], t.revision, err = t.chunk.Load(ctx, r.c.store)
			return err
		})
	})
	now := r.c.ticks(r.c.now())
	for i, k := range read { // a chunk that could not be read has none
		if len(k.Timers) == 0 {
			continue
		}
		for _, t := range k.Timers {
			if r.c.dueTick(t) <= now {
				r.due = append(r.due, t)
			} else {
				r.later = append(r.later, t)
			}
		}
		some[i].end = k.end()
		if r.cuts = append(r.cuts, some[i]); len(r.due)+len(r.later) >= batch {
			if err = errors.Join(err, r.flush(ctx)); r.leaves(ctx) {
				break
			}
		}
	}
	return err
}

// leaves reports whether r leaves the rest to another process, which may take over. Each runner hands over a batch before, so that all of them get on.
func (r *runner) leaves(ctx context.Context) bool {
	return ctx.Err() != nil || r.done && r.held.Err() != nil
}

// each calls do for all of some at the same time, and returns the errors joined.
func each[T any](some []T, do func(i int, x *T) error) error {
	errs := make([]error, len(some))
	var wait sync.WaitGroup
	for i := range some {
		wait.Go(func() { errs[i] = do(i, &some[i]) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// flush hands over the timers that were read, or puts them into other slots, and then removes them from where they were read.
func (r *runner) flush(ctx context.Context) error {
	r.done = r.done || len(r.cuts) > 0
	defer func() { r.due, r.later, r.cuts = r.due[:0], r.later[:0], r.cuts[:0] }() // what fails is read again by the next look
	slices.SortStableFunc(r.due, func(a, b Timer) int { return a.Due.Compare(b.Due) })
	for ts := range slices.Chunk(r.due, batch) {
		if err := r.hand(ctx, ts); err != nil {
			return err
		}
	}
	if len(r.later) > 0 {
		if err := r.c.add(ctx, r.later); err != nil {
			return err
		}
	}
	var err error
	for some := range slices.Chunk(r.cuts, together) {
		err = errors.Join(err, each(some, func(_ int, t *cut) error { return retried(ctx, func() error { return t.remove(ctx, r.c.store) }) }))
	}
	return err
}

// hand hands over timers until fire returns nil, or has failed and another process may take over.
func (r *runner) hand(ctx context.Context, ts []Timer) error {
	for try := 1; ; try++ {
		err := panics.Contain("fire timers of calendar "+quote.Text(r.c.name), "", func() error { return r.fire(ctx, slices.Clone(ts)) })
		if err == nil {
			return nil
		}
		r.log(ctx, "annals: timers are not handled", try, err)
		if backoff.Wait(r.held, try) != nil {
			return err
		}
	}
}

// remove removes the timers that were read. Timers that were added since stay: Add looks at the record after it has written them.
func (t *cut) remove(ctx context.Context, s annals.Store) error {
	err := t.chunk.Save(ctx, s, t.revision, chunk{From: t.end})
	if !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrUnknown) {
		return err
	}
	return t.chunk.Change(ctx, s, func(k *chunk) error {
		if !k.drop(t.end) {
			return document.ErrUnchanged
		}
		return nil
	})
}
