package calendar_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
)

// A timer is added to a slot while its runner takes it: the timer is handed over, whichever of the two is held up, and before whichever of its calls.
func TestHeldUp(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"adder", "runner"} {
		for at := range 8 {
			t.Run(fmt.Sprint(who, at), func(t *testing.T) {
				inWorld(t, random.New(t), func(w *world) {
					w.precision = time.Second
					calls, from := 0, time.Now().Add(time.Hour)
					held := w.calendar(&faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
						if c.ID.Type() != "annals.lease" && !time.Now().Before(from) {
							if calls++; calls == at+1 {
								time.Sleep(2 * time.Second)
							}
						}
						return run()
					}})
					free := w.calendar(w.store)
					runner, adder := held, free
					if who == "adder" {
						runner, adder = free, held
					}
					due := time.Now().Add(10 * time.Second)
					from = due.Add(-time.Second / 2)
					add := func(c *Calendar, name string) {
						if err := c.Add(w.Context(), []Timer{{"T|1", name, due}}); err != nil {
							t.Error(err)
						}
					}
					add(adder, "first")
					came := map[string]bool{}
					ctx, stop := context.WithCancel(w.Context())
					ended := make(chan error)
					go func() {
						ended <- runner.Run(ctx, func(_ context.Context, ts []Timer) error {
							for _, x := range ts {
								came[x.Name] = true
							}
							return nil
						})
					}()
					time.Sleep(time.Until(from))
					if who == "runner" {
						time.Sleep(time.Second) // it is held up
					}
					add(adder, "second")
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if !came["first"] || !came["second"] {
						t.Errorf("%v came", came)
					}
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
