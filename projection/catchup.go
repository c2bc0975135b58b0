package projection

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// CatchUp handles events until everything that was visible when it was called has been handled, by this Runner or by others. That includes
// the orders of Control.Retry and Control.Discard. When ctx ends before, its error is returned. A projection that is paused, or that is
// paused meanwhile, is annals.ErrUnavailable. Other errors are those of Run.
func (r *Runner) CatchUp(ctx context.Context) error {
	working, done := context.WithCancel(ctx)
	defer done()
	c := &catchUp{r: r, done: done, left: annals.SliceCount}
	c.others.Go(func() { c.watchOthers(working) })
	err := r.run(working, func(ctx context.Context, slices annals.SliceRange, epoch int64) error {
		defer c.hold(slices)()
		return newWorker(r, slices, epoch, func() { c.reached(slices) }).run(ctx)
	})
	done()
	c.others.Wait()
	switch {
	case c.left == 0:
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
	done   context.CancelFunc // called when no slice is left
	others sync.WaitGroup

	mu   sync.Mutex
	has  [annals.SliceCount]bool // the slices of which everything has been handled
	left int                     // how many have not
	held [annals.SliceCount]bool // the slices of the workers of this Runner: they call reached after their last write

	paused bool // whether watchOthers found the projection paused
}

// hold notes that a worker of this Runner has the slices of r, until the function that it returns is called.
func (c *catchUp) hold(r annals.SliceRange) func() {
	set := func(held bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := r.From; i < r.To; i++ {
			c.held[i] = held
		}
	}
	set(true)
	return func() { set(false) }
}

// holds reports whether a worker of this Runner has one of the slices of r.
func (c *catchUp) holds(r annals.SliceRange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.held[r.From:r.To], true)
}

// reached notes that everything in slices has been handled that was visible at the beginning.
func (c *catchUp) reached(slices annals.SliceRange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := slices.From; i < slices.To; i++ {
		if !c.has[i] {
			c.has[i] = true
			c.left--
		}
	}
	if c.left == 0 {
		c.done()
	}
}

// othersEvery is how often watchOthers reads.
const othersEvery = time.Second

// watchOthers reads how far other runners have come in their slices, until ctx ends. An error is tried again, as the workers do.
func (c *catchUp) watchOthers(ctx context.Context) {
	var newest annals.Offset
	known := false
	for tick := time.NewTicker(othersEvery); ; {
		if !known {
			var err error
			newest, err = c.r.stream.end(ctx)
			known = err == nil
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if record, err := c.r.Control().read(ctx, "catch up"); err == nil && record.Paused {
			c.paused = true
			tick.Stop()
			c.done()
			return
		}
		if !known {
			continue
		}
		positions, err := c.r.offsets.Offsets().Load(ctx, c.r.name, annals.SliceRange{})
		if err != nil {
			continue
		}
		for _, p := range positions {
			if c.holds(p.Slices) {
				continue
			}
			handled, err := c.r.handledTo(ctx, p, newest)
			if err == nil && handled {
				handled, err = c.r.carriedOut(ctx, p.Slices)
			}
			if err == nil && handled {
				c.reached(p.Slices)
			}
		}
	}
}

// carriedOut reports whether no retry is ordered in slices.
func (r *Runner) carriedOut(ctx context.Context, slices annals.SliceRange) (bool, error) {
	for p, err := range allParked(ctx, r.offsets, r.name, slices) {
		if err != nil {
			return false, err
		}
		for _, x := range p.entities {
			if x.Retry {
				return false, nil
			}
		}
	}
	return true, nil
}

// handledTo reports whether all events of p's slices at or before newest have been handled.
func (r *Runner) handledTo(ctx context.Context, p annals.Position, newest annals.Offset) (bool, error) {
	at := newStart([]annals.Position{p}, r.o.From)
	f := r.stream.filter()
	f.Slices, f.After, f.KeysOnly = p.Slices, at.positions[0].Through, true
	for e, err := range r.stream.read(ctx, f) {
		if err != nil {
			return false, err
		}
		if e.Offset().Compare(newest) > 0 {
			break
		}
		if !at.covers(e.Offset()) {
			return false, nil
		}
	}
	return true, nil
}
