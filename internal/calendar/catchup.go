package calendar

import (
	"context"
	"slices"

	"github.com/annals-go/annals/internal/backoff"
)

// CatchUp hands over the timers that are due, as Run does, and returns when none of them is left: this call has handed them over, or another
// process that runs. It returns the error of ctx when that ends first. Other errors of the store are returned, unlike by Run.
func (c *Calendar) CatchUp(ctx context.Context, fire func(ctx context.Context, ts []Timer) error) error {
	if left, err := c.due(ctx); err != nil || !left {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	turn := make(chan struct{}, 1) // is held by fire, or by a look at what is left: while fire runs something is left
	go func() {
		ran <- c.Run(working, func(ctx context.Context, ts []Timer) error {
			turn <- struct{}{}
			defer func() { <-turn }()
			return fire(ctx, ts)
		})
	}()
	for try := 0; ; try++ {
		turn <- struct{}{}
		left, err := c.due(ctx)
		<-turn
		if err == nil && left {
			err = backoff.Wait(ctx, try)
		}
		if err != nil || !left || len(ran) > 0 {
			stop()
			if ended := <-ran; err == nil {
				err = ended
			}
			return err
		}
	}
}

// due reports whether a timer is due and was not handed over, or only now.
func (c *Calendar) due(ctx context.Context) (bool, error) {
	if err := c.begin(ctx); err != nil {
		return false, err
	}
	r, _, err := c.record().Load(ctx, c.store)
	if err != nil {
		return false, err
	}
	now := c.ticks(c.now())
	for _, s := range slices.Concat(r.Taking, r.Occupied) {
		if s.start() > now {
			continue
		}
		for number := range s.Chunks {
			k, _, err := c.chunk(s.place(), number).Load(ctx, c.store)
			if err != nil {
				return false, err
			}
			if slices.ContainsFunc(k.Timers, func(t Timer) bool { return c.dueTick(t) <= now }) {
				return true, nil
			}
		}
	}
	return false, nil
}
