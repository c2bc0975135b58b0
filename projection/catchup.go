package projection

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// CatchUp handles events until everything that was visible when it was called has been handled, by this Runner or by others. That includes
// the orders of Control.Retry and Control.Discard. When ctx ends before, its error is returned. A projection that is paused, or that is
// paused meanwhile, is annals.ErrUnavailable. Other errors are those of Run.
func (r *Runner) CatchUp(ctx context.Context) error {
	working, done := context.WithCancel(ctx)
	defer done()
	c := &catchUp{r: r, done: done}
	c.others.Go(func() { c.watchOthers(working) })
	err := r.run(working, func(ctx context.Context, slices annals.SliceRange, epoch int64) error {
		c.set(&c.held, slices, true)
		defer c.set(&c.held, slices, false)
		return newWorker(r, slices, epoch, c).run(ctx)
	})
	done()
	c.others.Wait()
	switch {
	case !slices.Contains(c.reached[:], false):
		return nil
	case c.paused:
		return r.Control().fault("catch up", annals.ErrUnavailable, errors.New("the projection is paused; call Control.Resume first"))
	case err != nil:
		return err
	}
	return ctx.Err()
}

// catchUp is one call of Runner.CatchUp.
type catchUp struct {
	r      *Runner
	done   context.CancelFunc // called when all slices are reached
	others sync.WaitGroup

	mu      sync.Mutex
	reached [annals.SliceCount]bool // the slices in which everything has been handled that was visible at the beginning
	held    [annals.SliceCount]bool // the slices of the workers of this Runner: their slices are reached after their last write

	paused bool // whether watchOthers found the projection paused

	asking sync.Mutex
	newest *annals.Offset // see end; nil before it is known
}

// end returns an offset that is not before any of what was visible at the beginning. The store is asked once for all slices.
func (c *catchUp) end(ctx context.Context) (annals.Offset, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if c.newest == nil {
		newest, err := c.r.stream.end(ctx)
		if err != nil {
			return annals.Offset{}, err
		}
		c.newest = &newest
	}
	return *c.newest, nil
}

// set sets the slices of r in of, which is c.reached or c.held. When all slices are reached it ends the call.
func (c *catchUp) set(of *[annals.SliceCount]bool, r annals.SliceRange, to bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range of {
		if r.Contains(i) {
			of[i] = to
		}
	}
	if !slices.Contains(c.reached[:], false) {
		c.done()
	}
}

// holds reports whether a worker of this Runner has one of the slices of r.
func (c *catchUp) holds(r annals.SliceRange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, held := range c.held {
		if held && r.Contains(i) {
			return true
		}
	}
	return false
}

// othersEvery is how often watchOthers reads.
const othersEvery = time.Second

// watchOthers reads how far other runners have come in their slices, until ctx ends. What fails is tried again, as the workers do.
func (c *catchUp) watchOthers(ctx context.Context) {
	for backoff.Sleep(ctx, othersEvery) == nil {
		if record, err := c.r.Control().read(ctx, "catch up"); err == nil && record.Paused {
			c.paused = true
			c.done()
			return
		}
		newest, err := c.end(ctx)
		if err != nil {
			continue
		}
		positions, err := c.r.offsets.Offsets().Load(ctx, c.r.name, annals.SliceRange{})
		if err != nil {
			continue
		}
		for _, p := range newStart(positions, c.r.o.From).positions {
			if !c.holds(p.Slices) && c.r.handledTo(ctx, p, newest) && c.r.carriedOut(ctx, p.Slices) {
				c.set(&c.reached, p.Slices, true)
			}
		}
	}
}

// handledTo reports whether all events of p's slices at or before newest have been handled. An error is false.
func (r *Runner) handledTo(ctx context.Context, p annals.Position, newest annals.Offset) bool {
	s, err := rangeStatus(ctx, r.stream, p.Slices, []annals.Position{p}, 0, newest)
	return err == nil && (!s.lagAtLeast || newest == annals.Offset{})
}

// carriedOut reports whether no retry is ordered in slices. An error is false.
func (r *Runner) carriedOut(ctx context.Context, slices annals.SliceRange) bool {
	for p, err := range allParked(ctx, r.offsets, r.name, slices) {
		if err != nil {
			return false
		}
		for _, x := range p.entities {
			if x.Retry {
				return false
			}
		}
	}
	return true
}
