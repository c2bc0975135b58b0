package calendar_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
)

// Two processes hand over all timers although they lose the lease before they have handed over a batch, or before they have read anything.
func TestLeaseIsTooShort(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]struct{ lease, others, fire time.Duration }{
		"fire is slow": {0, 0, 10 * time.Second}, "writes are slow": {400 * time.Millisecond, 0, time.Second}, "all is slow": {time.Second, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, random.New(t), func(w *world) {
				w.precision, w.lease = time.Second, 300*time.Millisecond
				const n = 3000
				var ts []Timer
				for i := range n {
					ts = append(ts, Timer{"T|1", fmt.Sprint(i), time.Now().Add(time.Duration(i%4) * time.Minute)})
				}
				if err := w.calendar(w.store).Add(w.Context(), ts); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(w.Context(), 10*time.Minute)
				defer stop()
				wait := func(ctx context.Context, d time.Duration) error {
					select {
					case <-time.After(d):
						return nil
					case <-ctx.Done():
						return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
					}
				}
				var (
					ends       sync.WaitGroup
					mu         sync.Mutex
					came       = map[string]int{}
					all, tries int
				)
				for range 2 {
					c := w.calendar(&faulty.Store{Store: w.store, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
						d := slow.others
						if c.ID.Type() == "annals.lease" {
							if d = slow.lease; c.Writes && w.random.OneIn(10) {
								d += time.Second
							}
						}
						before := w.random.Below(d + 1)
						if err := wait(ctx, before); err != nil {
							return err
						}
						if err := run(); err != nil {
							return err
						}
						return wait(ctx, d-before)
					}})
					ends.Go(func() {
						if err := c.Run(ctx, func(ctx context.Context, ts []Timer) error {
							mu.Lock()
							tries++
							mu.Unlock()
							if err := wait(ctx, slow.fire); err != nil {
								return err
							}
							mu.Lock()
							defer mu.Unlock()
							for _, x := range ts {
								came[x.Name]++
								all++
							}
							return nil
						}); err != nil {
							t.Error(err)
						}
					})
				}
				ends.Wait()
				if len(came) != n || all > 3*n {
					t.Errorf("%d of %d timers came, %d in all, after %d tries", len(came), n, all, tries)
				}
			})
		})
	}
}
