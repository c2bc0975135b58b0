package dynamostore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// observe runs one call under the Observer's eyes.
func (s *Store) observe(ctx context.Context, c annals.Call, run func(ctx context.Context) error) error {
	if s.observer == nil {
		return run(ctx)
	}
	ctx, end := s.start(ctx, c)
	err := run(ctx)
	end(named(c.Op, c.ID, err))
	return err
}

// start tells the Observer of a call; the function it returns ends it.
func (s *Store) start(ctx context.Context, c annals.Call) (context.Context, func(error)) {
	if s.observer == nil {
		return ctx, func(error) {}
	}
	c.Store = s.name
	began := time.Now()
	sum := &costs{}
	ctx = s.observer.Start(withCosts(ctx, sum), c)
	return ctx, func(err error) {
		sum.mu.Lock()
		r := sum.result
		sum.mu.Unlock()
		r.Duration, r.Err = time.Since(began), err
		s.observer.End(ctx, c, r)
	}
}
