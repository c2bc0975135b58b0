package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// A handler that waits for its context has failed when HandlerTimeout is over, and its event reaches OnError alone.
func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			events, handled := memstore.New(), map[annals.PersistenceID]int{}
			add(t, events, 1, 30, 3)
			o := Options{Logger: silent, Ranges: 1, HandlerTimeout: timeout, OnError: func(_ context.Context, f Failure) Verdict {
				if f.Event.ID != "T|7" || f.Event.SeqNr != 2 || !errors.Is(f.Err, context.DeadlineExceeded) || annals.SafeToRetry(f.Err) {
					t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
				}
				return Skip
			}}
			handle := func(ctx context.Context, e envelope) error {
				if e.ID == "T|7" && e.SeqNr == 2 {
					<-ctx.Done()
					return ctx.Err()
				}
				handled[e.ID]++
				return nil
			}
			source := Source[int]{Store: events, Type: "T", Codec: numbers}
			began, offsets := time.Now(), memstore.New()
			for name, r := range map[string]*Runner{
				"single": must(t)(AtLeastOnce("single", source, offsets, handle, o)),
				"grouped": must(t)(AtLeastOnceGrouped("grouped", source, offsets, func(ctx context.Context, es []envelope) error {
					for _, e := range es {
						if err := handle(ctx, e); err != nil {
							return err
						}
					}
					return nil
				}, o)),
			} {
				handled = map[annals.PersistenceID]int{}
				if err := r.CatchUp(t.Context()); err != nil || len(handled) != 30 || handled["T|7"] < 2 || handled["T|30"] < 3 {
					t.Errorf("%s: %v, handled %v", name, err, handled)
				}
			}
			if took := time.Since(began); timeout == 0 && took < 10*time.Minute || timeout > 0 && took > time.Minute {
				t.Errorf("a timeout of %v: took %v", timeout, took)
			}
		})
	}
}

// No handler takes longer than the longest duration.
func TestLongestHandlerTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 20, 3)
		slow := func(envelope) error { time.Sleep(time.Millisecond); return nil }
		stop := func(context.Context, Failure) Verdict { return Stop }
		if err := must(t)(in.once("p", in.store, slow, Options{HandlerTimeout: math.MaxInt64, OnError: stop, Logger: silent})).CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
		in.check(t, in.store)
	})
}

// A handler that does not return although its context has ended: the range goes to another runner, which goes on with it, and what the first
// one does later is fenced. Its other ranges stay.
func TestHandlerThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, offsets := memstore.New(), memstore.New()
		var log bytes.Buffer
		var mu sync.Mutex
		handled := map[string]int{}
		hangs := make(chan struct{})
		make := func(hanging bool, logger *slog.Logger) *Runner {
			return must(t)(AtLeastOnce("p", Source[int]{Store: events, Type: "T", Codec: numbers}, offsets, func(_ context.Context, e envelope) error {
				if hanging && e.ID == "T|7" && e.SeqNr == 2 {
					<-hangs
				}
				mu.Lock()
				defer mu.Unlock()
				handled[key(e)]++
				return nil
			}, Options{Logger: logger, HandlerTimeout: 20 * time.Second}))
		}
		c := NewControl(offsets, "p")
		status := func() (own RangeStatus, others int) {
			s, err := c.Status(t.Context(), events)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range s.Ranges {
				if r.Slices.Contains(annals.PersistenceID("T|7").Slice()) {
					own = r
				} else {
					others += r.Lag
				}
			}
			return own, others
		}
		add(t, events, 1, 30, 3)
		began := time.Now()
		running(t, make(true, slog.New(slog.NewTextHandler(&log, nil))))
		time.Sleep(time.Minute)
		add(t, events, 1, 30, 1)
		time.Sleep(10 * time.Second)
		own, others := status()
		if own.Runner != "" || !own.Hangs || own.Lag == 0 || own.StuckSince.Sub(began).Abs() > time.Second || others != 0 {
			t.Errorf("the handler does not return: %+v, and %d events of other ranges wait", own, others)
		}
		synctest.Wait() // for the log
		if !strings.Contains(log.String(), `"the handler does not return"=true`) {
			t.Errorf("logged:\n%s", log.String())
		}

		running(t, make(true, silent)) // it hangs as well
		time.Sleep(2 * time.Minute)
		if own, others := status(); own.Runner != "" || !own.Hangs || others != 0 {
			t.Errorf("two hang: %+v, and %d events of other ranges wait", own, others)
		}

		running(t, make(false, silent))
		time.Sleep(time.Minute)
		if own, others := status(); own.Runner == "" || own.Hangs || !own.StuckSince.IsZero() || own.Lag+others != 0 {
			t.Errorf("another runner goes on: %+v, and %d events of other ranges wait", own, others)
		}
		close(hangs)
		time.Sleep(time.Minute)
		add(t, events, 1, 30, 1)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(handled) != 150 || handled["T|7/2"] != 3 {
			t.Errorf("%d events were handled, and the one that hung %d times", len(handled), handled["T|7/2"])
		}
	})
}

// stubborn is a store whose transactions do not end with their context.
type stubborn struct{ *memstore.Store }

func (s stubborn) InTx(ctx context.Context, fn func(ctx context.Context, tx memstore.Tx, in annals.Store) error) error {
	return s.Store.InTx(context.WithoutCancel(ctx), fn)
}

// A handler does not return, and its transaction holds up all other writes. Soon after HandlerTimeout the transaction is undone. The process says
// what hangs, also where its own writes still wait.
func TestTransactionThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for name, heldUp := range map[string]bool{"ends with its context": false, "does not": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				add(t, s, 1, 30, 3)
				var in TxStore[memstore.Tx] = s
				if heldUp {
					in = stubborn{s}
				}
				var log bytes.Buffer
				hangs, hung, asked := make(chan struct{}), 0, 0
				running(t, must(t)(ExactlyOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, in, func(_ context.Context, tx memstore.Tx, e envelope) error {
					if e.ID == "T|7" && e.SeqNr == 2 {
						hung++
						<-hangs
					}
					n, _ := tx.Value(key(e)).(int)
					tx.SetValue(key(e), n+1)
					return nil
				}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), HandlerTimeout: 20 * time.Second, OnError: func(_ context.Context, f Failure) Verdict {
					if asked++; f.Event.ID != "T|7" || f.Event.SeqNr != 2 || !strings.Contains(f.Err.Error(), "HandlerTimeout") {
						t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
					}
					return Retry
				}})))
				time.Sleep(40 * time.Second)
				synctest.Wait() // for the log
				if n := strings.Count(log.String(), `"the handler does not return"=true`); n != 1 {
					t.Errorf("logged %d times:\n%s", n, log.String())
				}
				within, end := context.WithTimeout(t.Context(), time.Second)
				defer end()
				_, err := s.Journal().Append(within, annals.Commit{ID: "Other|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: []byte("1")}}}})
				if (err != nil) != heldUp {
					t.Errorf("a writer beside the handler: %v", err)
				}
				status, err := NewControl(s, "p").Status(t.Context(), s)
				if tells := slices.ContainsFunc(status.Ranges, func(r RangeStatus) bool { return r.Hangs && !r.StuckSince.IsZero() }); err != nil || tells == heldUp {
					t.Errorf("%+v, %v", status, err)
				}
				close(hangs)
				time.Sleep(time.Minute)
				for _, number := range []string{"T|7/1", "T|7/2", "T|7/3", "T|30/3"} {
					if n := s.Value(number); n != 1 {
						t.Errorf("%s was handled %v times", number, n)
					}
				}
				if again := hung > 1; again == heldUp || asked > 1 {
					t.Errorf("the event that hung was handled %d times, asked %d times", hung, asked)
				}
			})
		})
	}
}

// deadlock is the error of a database that has undone a transaction because of another one.
type deadlock struct{}

func (deadlock) Error() string    { return "deadlock detected" }
func (deadlock) SQLState() string { return "40P01" }

// Steps that write to the same rows at the same time deadlock. That is no failure of an event: they are done again, in turn, and are counted.
func TestDeadlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, offsets := memstore.New(), memstore.New()
		var log bytes.Buffer
		var inside, calls, deadlocks atomic.Int64
		add(t, events, 1, 100, 10)
		r := must(t)(AtLeastOnceGrouped("p", Source[int]{Store: events, Type: "T", Codec: numbers}, offsets, func(_ context.Context, es []envelope) error {
			calls.Add(1)
			defer inside.Add(-1)
			n := inside.Add(1)
			time.Sleep(10 * time.Millisecond)
			if n > 1 {
				deadlocks.Add(1)
				return fmt.Errorf("write: %w", deadlock{})
			}
			return nil
		}, Options{BatchSize: 10, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: func(_ context.Context, f Failure) Verdict {
			t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
			return Retry
		}}))
		running(t, r)
		time.Sleep(10 * time.Second)
		if d, c := deadlocks.Load(), calls.Load(); d == 0 || d > 20 || c-d < 100 || c > 150 {
			t.Errorf("%d deadlocks in %d calls", d, c)
		}
		s, err := NewControl(offsets, "p").Status(t.Context(), events)
		if err != nil {
			t.Fatal(err)
		}
		repeats := int64(0)
		for _, r := range s.Ranges {
			if repeats += r.Repeats; r.Repeats > 0 && r.Cause != "SQLSTATE 40P01" {
				t.Errorf("%+v", r)
			}
		}
		synctest.Wait() // for the log
		if lines := strings.Count(log.String(), "deadlock detected"); repeats != deadlocks.Load() || lines == 0 || lines > int(repeats) {
			t.Errorf("%d of %d deadlocks are in the status, %d are logged", repeats, deadlocks.Load(), lines)
		}
	})
}

// While a projection is far behind, batches without a BatchSize become larger, unless they take long.
func TestBatchesGrow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o        Options
		each     time.Duration
		largest  int
		mostCall int
	}{
		"fast":      {Options{}, 0, 1000, 20},
		"slow":      {Options{}, 6 * time.Millisecond, 100, 110},
		"BatchSize": {Options{BatchSize: 200}, 0, 200, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				add(t, s, 1, 5, 1000)
				calls, largest := 0, 0
				c.o.Ranges, c.o.Logger = 1, silent
				catchUp(t, must(t)(AtLeastOnceGrouped("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(_ context.Context, es []envelope) error {
					time.Sleep(time.Duration(len(es)) * c.each)
					calls++
					largest = max(largest, len(es))
					return nil
				}, c.o)))
				if largest != c.largest || calls > c.mostCall {
					t.Errorf("%d calls, the largest with %d events", calls, largest)
				}
			})
		})
	}
}

// A database that undoes the transaction of a retry because of another one says nothing of the event.
func TestDeadlockOfARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, fails := inMemory(memstore.New()), 0
		worst := errBroken
		add(t, in.store, 1, 1, 3)
		r := must(t)(in.once("p", in.store, func(e envelope) error {
			if e.SeqNr == 2 && fails > 0 {
				fails--
				return worst
			}
			return nil
		}, Options{Logger: silent, OnError: park}))
		fails = 100
		catchUp(t, r)
		fails, worst = 3, deadlock{}
		if err := r.Control().Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		in.check(t, in.store)
		if all := list(t, r.Control()); len(all) > 0 {
			t.Errorf("%+v are parked", all)
		}
	})
}
