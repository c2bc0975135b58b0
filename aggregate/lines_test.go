package aggregate_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/memstore"
)

// Guards the loop of Do: every command counts once, whichever repository writes first.
func TestRacingRepositories(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		s := memstore.New()
		var wg sync.WaitGroup
		var unknown atomic.Int64
		for range 8 {
			r := open(s, aggregate.Options{})
			wg.Go(func() {
				for range 20 {
					_, err := r.Ask(t.Context(), "a", 1)
					if errors.Is(err, annals.ErrUnknown) {
						unknown.Add(1) // a state store cannot tell whether a write that comes after four others is a repeated one
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		n, at, err := open(s, aggregate.Options{}).Load(t.Context(), "a")
		if int64(n) != 160-unknown.Load() || int(at) != n || err != nil {
			t.Errorf("%d at %d, %v, want 160 but for %d unknown", n, at, err, unknown.Load())
		}
	})
}

// Guards the bound of Do: commands give up each on its own, also one that waits behind others. One with a number is a conflict at once.
func TestConflictsEndAtConflictTimeout(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		synctest.Test(t, func(t *testing.T) {
			s := newFlaky()
			s.write = func(annals.WriteID, func() error) error {
				return &annals.Error{Op: "test", Kind: annals.ErrConflict}
			}
			r := open(s, aggregate.Options{ConflictTimeout: 10 * time.Second})
			began := time.Now()
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Second)
					begun := time.Now()
					if _, err := r.Do(t.Context(), "a", 1); !errors.Is(err, annals.ErrConflict) || time.Since(begun) > 11*time.Second {
						t.Errorf("%v after %v, want a conflict after 10 s", err, time.Since(begun))
					}
				})
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			time.Sleep(time.Second / 2)
			if _, err := r.Do(ctx, "a", 1); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("%v after %v, want the end of the context after 1 s", err, time.Since(began))
			}
			wg.Wait()
			if took := time.Since(began); took < 10*time.Second || took > 15*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
}

// A Repository that is the only owner of an entity reads it once for each command, writes once, and never waits.
func TestOneOwnerPaysNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, open opener) {
		synctest.Test(t, func(t *testing.T) {
			s, seen := newFlaky(), &calls{}
			writes := 0
			s.write = func(_ annals.WriteID, next func() error) error {
				writes++
				time.Sleep(10 * time.Millisecond)
				return next()
			}
			r := open(s, aggregate.Options{Observer: seen})
			const commands = 1000
			began := time.Now()
			for range commands {
				if _, err := r.Ask(t.Context(), "a", 1); err != nil {
					t.Fatal(err)
				}
			}
			if n := seen.of["load"]; writes != commands || n != commands || seen.of["write"] != commands || time.Since(began) != commands*10*time.Millisecond {
				t.Errorf("%d commands: %d writes of the store, %v of the repository, after %v", commands, writes, seen.of, time.Since(began))
			}
		})
	})
}

// calls is an Observer that counts operations. It is for one goroutine.
type calls struct{ of map[string]int }

func (c *calls) Start(ctx context.Context, call annals.Call) context.Context {
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[call.Op]++
	return ctx
}

func (*calls) End(context.Context, annals.Call, annals.Result) {}
