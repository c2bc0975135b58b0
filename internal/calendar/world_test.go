package calendar_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

// world is a store with one calendar, and the processes that use it.
type world struct {
	*testing.T
	random    *random.Source
	store     *memstore.Store
	precision time.Duration
	lease     time.Duration
	faults    bool // calls fail, are slow, and their answers get lost

	mu    sync.Mutex
	added map[string]time.Time   // when Add of the timer with that name returned nil
	fired map[string][]time.Time // by the real clock
	count int
}

// sleep lets time go by in the bubble.
func (w *world) sleep(d time.Duration) { time.Sleep(d) }

// process is one process with its own connection and clock.
type process struct {
	*world
	random *random.Source
	*Calendar
	ctx  context.Context
	kill context.CancelFunc
	ends sync.WaitGroup

	mu   sync.Mutex
	skew time.Duration
}

func inWorld(t *testing.T, r *random.Source, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		test(&world{
			T: t, random: r, store: memstore.New(), precision: random.OneOf(r, time.Millisecond*20, time.Second, time.Minute),
			added: map[string]time.Time{}, fired: map[string][]time.Time{},
		})
	})
}

// start starts a process. After kill none of its calls has an effect any more, and all fail.
func (w *world) start() *process {
	p := &process{world: w, random: w.random.Child()}
	p.ctx, p.kill = context.WithCancel(w.Context())
	p.Calendar = w.calendar(&faulty.Store{Store: w.store, Around: p.around})
	SetClock(p.Calendar, p.now)
	return p
}

func (w *world) calendar(s annals.Store) *Calendar {
	c, err := New(s, "c", Options{Precision: w.precision, Lease: w.lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (p *process) around(ctx context.Context, c *faulty.Call, run func() error) error {
	if p.faults && p.random.OneIn(3) {
		time.Sleep(p.random.Below(300 * time.Millisecond))
	}
	switch {
	case p.ctx.Err() != nil, p.faults && p.random.OneIn(15):
		return faulty.Failed(c)
	}
	if err := run(); err != nil {
		return err
	}
	if p.faults && p.random.OneIn(3) {
		time.Sleep(p.random.Below(300 * time.Millisecond))
	}
	if p.ctx.Err() != nil || p.faults && p.random.OneIn(15) {
		return faulty.Lost(c)
	}
	return ctx.Err()
}

// now is the clock of the process.
func (p *process) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.skew)
}

func (p *process) setClock(skew time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew = skew
}

// run hands over timers until the process is killed. fire may be nil.
func (p *process) run(fire func(ts []Timer) error) {
	p.ends.Go(func() {
		if err := p.Run(p.ctx, func(_ context.Context, ts []Timer) error {
			if fire != nil {
				if err := fire(ts); err != nil {
					return err
				}
			}
			if p.ctx.Err() != nil {
				return p.ctx.Err()
			}
			p.hand(ts)
			return nil
		}); err != nil {
			p.Error(err)
		}
	})
}

func (p *process) hand(ts []Timer) {
	now := p.now()
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if len(ts) == 0 || len(ts) > 256 {
		p.Errorf("%d timers at once", len(ts))
	}
	for _, t := range ts {
		if t.Due.After(now) {
			p.Errorf("a timer that is due at %v was handed over at %v", t.Due, now)
		}
		p.fired[t.Name] = append(p.fired[t.Name], time.Now())
	}
}

// stop kills the process and waits until it has ended.
func (p *process) stop() {
	p.kill()
	p.ends.Wait()
}

// name returns a new one.
func (w *world) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	return fmt.Sprint(w.count)
}

// timers makes n timers that are due about so long after now.
func (p *process) timers(n int, after time.Duration) (ts []Timer) {
	for range n {
		due := time.Now().Add(after)
		if p.random.OneIn(2) {
			due = due.Add(p.random.Below(10 * p.precision))
		}
		ts = append(ts, Timer{annals.NewPersistenceID("T", fmt.Sprint(p.random.IntN(3))), p.name(), due})
	}
	return ts
}

// set adds timers, again until it succeeds or the process is killed.
func (p *process) set(ts []Timer) {
	for p.ctx.Err() == nil {
		if err := p.Add(p.ctx, ts); err == nil {
			p.world.mu.Lock()
			for _, t := range ts {
				p.added[t.Name] = time.Now()
			}
			p.world.mu.Unlock()
			return
		} else if !errors.Is(err, annals.ErrUnavailable) && !errors.Is(err, annals.ErrUnknown) && p.ctx.Err() == nil {
			p.Error(err)
		}
	}
}

// missing are the timers that were added and not handed over.
func (w *world) missing() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.added {
		if len(w.fired[name]) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// far is a time of any order of magnitude, of so many ticks at most, or before now.
func (p *process) far(most float64) time.Duration {
	switch {
	case p.random.OneIn(6):
		return -time.Duration(p.random.ExpFloat64() * 20 * float64(p.precision))
	case p.random.OneIn(6):
		return 0
	}
	ticks := 1.0
	for !p.random.OneIn(4) && ticks < most {
		ticks *= 1 + 7*p.random.Float64()
	}
	return time.Duration(min(ticks, most) * float64(p.precision))
}

// Timers of all distances are added by some processes, which stop at any call, as do those that hand them over. Stores fail, clocks go forward
// and back, and for a long time no process runs. Every timer comes, none too early.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	rounds := 15
	if testing.Short() {
		rounds = 4
	}
	for r := range random.Rounds(t, rounds) {
		inWorld(t, r, func(w *world) {
			w.faults = true
			most := min(1e10, float64(50*365*24*time.Hour)/float64(w.precision)) // ticks
			runners, adders := []*process{w.start(), w.start()}, []*process{w.start(), w.start(), w.start()}
			for _, p := range runners {
				p.run(nil)
			}
			for range 6 {
				var ends sync.WaitGroup
				for i, p := range adders {
					if p.ctx.Err() != nil {
						adders[i] = w.start()
						p = adders[i]
					}
					p.setClock(w.skew())
					ends.Go(func() {
						for range p.random.IntN(6) {
							p.set(p.timers(1+p.random.IntN(5), p.far(most)))
							time.Sleep(p.random.Below(4 * p.precision))
						}
					})
					if w.random.OneIn(3) {
						time.AfterFunc(w.random.Below(4*w.precision), p.kill)
					}
				}
				for _, p := range runners {
					if w.random.OneIn(2) {
						p.setClock(w.skew())
					}
					if w.random.OneIn(3) {
						time.AfterFunc(w.random.Below(20*w.precision), p.kill)
					}
				}
				time.Sleep(w.random.Below(100 * w.precision))
				ends.Wait()
				time.Sleep(20*w.precision + 10*time.Second) // what has to stop has stopped
				synctest.Wait()
				for _, p := range runners {
					p.stop()
				}
				if w.random.OneIn(2) {
					time.Sleep(adders[0].far(most))
				}
				for i := range runners {
					runners[i] = w.start()
					runners[i].run(nil)
				}
			}
			for _, p := range runners {
				p.stop()
			}
			w.finish(time.Duration(most * float64(w.precision)))
		})
	}
}

// skew is how wrong a clock is.
func (w *world) skew() time.Duration {
	switch w.random.IntN(4) {
	case 0:
		return w.random.Below(200*w.precision) - 100*w.precision
	case 1:
		return time.Duration(w.random.NormFloat64() * float64(1e5*w.precision))
	}
	return 0
}

// finish demands that all timers are handed over that are due within so long.
func (w *world) finish(within time.Duration) {
	time.Sleep(within)
	last := w.start()
	last.run(nil)
	for end := time.Now().Add(2 * time.Hour); len(w.missing()) > 0 && time.Now().Before(end); {
		time.Sleep(10 * w.precision)
	}
	last.stop()
	if names := w.missing(); len(names) > 0 {
		w.Errorf("of %d timers these were not handed over: %v", len(w.added), names)
	}
	for _, name := range slices.Sorted(maps.Keys(w.fired)) {
		if n := len(w.fired[name]); n > 20 {
			w.Errorf("timer %s was handed over %d times", name, n)
		}
	}
}
