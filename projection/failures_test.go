package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

var errBroken = errors.New("broken")

func TestRetriesForEverAndOnlyTheFailingEvent(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 30, 3)
		for name, make := range map[string]maker{
			"once": in.once, "group": in.group, "least": in.least,
		} {
			var mu sync.Mutex
			failed := map[string]int{}
			tries := map[string][]int{}
			r := must(t)(make(name, in.store, func(e envelope) error {
				mu.Lock()
				defer mu.Unlock()
				if e.ID.EntityID() == "7" && e.SeqNr == 2 && failed[name] < 8 {
					failed[name]++
					return errBroken
				}
				return nil
			}, Options{Logger: silent, OnError: func(_ context.Context, f Failure) Verdict {
				mu.Lock()
				defer mu.Unlock()
				if f.Event.ID != "T|7" || f.Event.SeqNr != 2 || !errors.Is(f.Err, errBroken) {
					t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
				}
				tries[name] = append(tries[name], f.Try)
				return Retry
			}}))
			catchUp(t, r)
			if n := len(tries[name]); failed[name] != 8 || n == 0 || tries[name][n-1] != n {
				t.Errorf("%s: failed %d times, tries %v", name, failed[name], tries[name])
			}
		}
		for k, n := range in.count(t) {
			if n != 3 {
				t.Errorf("%s was handled %d times by 3 projections", k, n)
			}
		}
	})
}

func TestSkipLeavesOutTheFailingEventAlone(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 30, 3)
		for range 2 { // what was skipped stays skipped
			catchUp(t, must(t)(in.group("p", in.store, func(e envelope) error {
				if e.ID.EntityID() == "7" && e.SeqNr == 2 {
					return errBroken
				}
				return nil
			}, Options{Logger: silent, OnError: func(context.Context, Failure) Verdict { return Skip }})))
			in.check(t, in.store, "T|7/2")
		}
	})
}

// A transaction in which one event was handled cannot be committed, although its handler has no error: it took too long, or has broken the
// transaction. That event reaches OnError alone.
func TestTransactionsThatAnEventBreaks(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 30, 3)
		var broken atomic.Bool
		in.faults.commit = func() error {
			if broken.Swap(false) {
				return &annals.Error{Kind: annals.ErrUnavailable}
			}
			return nil
		}
		catchUp(t, must(t)(in.once("p", in.store, func(e envelope) error {
			if e.ID.EntityID() == "7" && e.SeqNr == 2 {
				broken.Store(true)
			}
			return nil
		}, Options{Logger: silent, Ranges: 1, OnError: func(_ context.Context, f Failure) Verdict {
			if f.Event.ID != "T|7" || f.Event.SeqNr != 2 || !errors.Is(f.Err, annals.ErrUnavailable) {
				t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
			}
			return Skip
		}})))
		in.check(t, in.store, "T|7/2")
	})
}

// A server denies the writes of a projection for a while, because a table was renamed or a right is missing, or it cannot be reached. Then Run goes
// on, no event is said to have failed, and the log says little.
func TestServerThatDeniesWrites(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{annals.ErrInvalid, annals.ErrConstraint, annals.ErrTooLarge, annals.ErrCorrupt, annals.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			in := inMemory(memstore.New())
			var denies atomic.Bool
			in.faults.around = func(run func() error) error {
				if denies.Load() {
					return &annals.Error{Op: "test", Kind: kind}
				}
				return run()
			}
			var log bytes.Buffer
			denies.Store(true)
			running(t, must(t)(in.once("p", in.store, nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: func(_ context.Context, f Failure) Verdict {
				t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
				return Skip
			}})))
			for range 2 { // before the ranges were taken, and afterwards
				add(t, in.store, 1, 30, 3)
				time.Sleep(20 * time.Second)
				denies.Store(false)
				time.Sleep(10 * time.Second)
				in.check(t, in.store)
				if n := strings.Count(log.String(), "\n"); n == 0 || n > 100 {
					t.Errorf("%d lines are logged:\n%s", n, log.String())
				}
				log.Reset()
				denies.Store(true)
			}
		})
	}
}

// A name that a store does not take, and a type or tag that no entity can have, is an error when the Runner is made.
func TestNameThatAStoreDoesNotTake(t *testing.T) {
	t.Parallel()
	in := inSQLite(t)
	for _, name := range []string{"a\x00b", "\xff", strings.Repeat("x", in.store.Capabilities().Limits.MaxIDBytes)} {
		if _, err := in.once(name, in.store, nil, Options{}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%.10q: %v", name, err)
		}
	}
	for _, src := range []Source[string]{{Type: "T|"}, {Type: "\xff"}, {Tag: "a\x00"}} {
		src.Store, src.Codec = in.store, codec.JSON[string]("s")
		if _, err := AtLeastOnce("p", src, in.store, func(context.Context, Envelope[string]) error { return nil }, Options{}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("type %q, tag %q: %v", src.Type, src.Tag, err)
		}
	}
}

func TestStopEndsRunWithTheError(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 30, 3)
		broken := true
		o := Options{Logger: silent, Ranges: 1, OnError: func(context.Context, Failure) Verdict { return Stop }}
		before := func(e envelope) error {
			if broken && e.ID.EntityID() == "7" && e.SeqNr == 2 {
				return errBroken
			}
			return nil
		}
		err := must(t)(in.once("p", in.store, before, o)).Run(t.Context())
		if e := (*annals.Error)(nil); !errors.Is(err, errBroken) || !errors.As(err, &e) || e.ID != "T|7" {
			t.Errorf("Run returned %v", err)
		}
		if err := must(t)(in.once("p", in.store, before, o)).CatchUp(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("CatchUp returned %v", err)
		}
		broken = false
		catchUp(t, must(t)(in.once("p", in.store, before, o)))
		in.check(t, in.store)
	})
}

func TestPanicsAreFailures(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 3, 3)
		for i, worst := range []func(){func() { panic("worst") }, runtime.Goexit} {
			for j, make := range []maker{in.once, in.group, in.least} {
				var failures []error
				catchUp(t, must(t)(make(fmt.Sprint(i, j), in.store, func(e envelope) error {
					if e.ID == "T|2" && e.SeqNr == 2 && len(failures) == 0 {
						worst()
					}
					return nil
				}, Options{Logger: silent, Ranges: 1, BatchSize: 1, OnError: func(_ context.Context, f Failure) Verdict {
					failures = append(failures, f.Err)
					return Retry
				}})))
				if len(failures) != 1 || !errors.Is(failures[0], annals.ErrPanic) {
					t.Errorf("failures %v", failures)
				}
			}
		}
		for k, n := range in.count(t) {
			if n != 6 {
				t.Errorf("%s was handled %d times by 6 projections", k, n)
			}
		}
	})
}

// A panic of OnError is a Retry, and of many retries few are logged.
func TestOnErrorPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 3, 3)
		fails := 100
		var log bytes.Buffer
		catchUp(t, must(t)(in.once("p", in.store, func(e envelope) error {
			if e.ID == "T|2" && e.SeqNr == 2 && fails > 0 {
				fails--
				return errBroken
			}
			return nil
		}, Options{Ranges: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: func(context.Context, Failure) Verdict { panic("worst") }})))
		in.check(t, in.store)
		if n := strings.Count(log.String(), "was not handled"); fails != 0 || n != 7 || !strings.Contains(log.String(), "worst") {
			t.Errorf("%d failures are left, %d logged:\n%s", fails, n, log.String())
		}
	})
}

func TestEventsThatTheCodecDoesNotKnowAreFailures(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 3, 3)
		if _, err := in.store.Journal().Append(t.Context(), annals.Commit{ID: "T|2", After: 3, Events: []annals.NewEvent{
			{Payload: annals.Payload{SerializerID: 99, Manifest: "other", Data: []byte("{}")}},
		}}); err != nil {
			t.Fatal(err)
		}
		add(t, in.store, 1, 3, 3)
		var failures []Failure
		catchUp(t, must(t)(in.once("p", in.store, nil, Options{Logger: silent, Ranges: 1, OnError: func(_ context.Context, f Failure) Verdict {
			failures = append(failures, f)
			return Skip
		}})))
		if unknown := (*codec.UnknownManifestError)(nil); len(failures) != 1 || !errors.As(failures[0].Err, &unknown) || failures[0].Event.SeqNr != 4 {
			t.Errorf("failures %v", failures)
		}
		in.check(t, in.store, "T|2/4")
	})
}

// A store that takes few writes in one transaction gets smaller batches; an event that is refused alone is a failure.
func TestTransactionsThatAreTooLarge(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 40, 5)
		for _, kind := range []error{annals.ErrTooLarge, annals.ErrInvalid, annals.ErrConstraint} {
			var events []string // of the transaction
			var sizes []int
			in.faults.around = func(run func() error) error {
				events = nil
				err := run()
				if err == nil && len(events) > 0 {
					sizes = append(sizes, len(events))
				}
				return err
			}
			in.faults.commit = func() error {
				if len(events) > 10 || slices.Contains(events, "T|7/2") {
					return &annals.Error{Op: "transaction", Kind: kind}
				}
				return nil
			}
			var failures []Failure
			catchUp(t, must(t)(in.once(kind.Error(), in.store, func(e envelope) error {
				events = append(events, key(e))
				return nil
			}, Options{Logger: silent, Ranges: 1, OnError: func(_ context.Context, f Failure) Verdict {
				failures = append(failures, f)
				return Skip
			}})))
			if len(failures) != 1 || failures[0].Event.ID != "T|7" || failures[0].Event.SeqNr != 2 || !errors.Is(failures[0].Err, kind) {
				t.Errorf("failures %v", failures)
			}
			if slices.Max(sizes) < 6 || len(sizes) > 50 {
				t.Errorf("the sizes of the batches are %v", sizes)
			}
		}
		for k, n := range in.count(t) {
			if n != 3 {
				t.Errorf("%s was handled %d times by 3 projections", k, n)
			}
		}
	})
}

// A group of which some events have had an effect is handled again as a whole, because nobody knows which. So little is repeated: groups are small
// for a while after a failure, and there are waits between them.
func TestRepeatsOfGroupsThatFail(t *testing.T) {
	t.Parallel()
	const events = 1000
	for name, c := range map[string]struct {
		refuses func(accepted int, e envelope, down time.Duration) bool // down is how long ago the first event was refused
		repeats int
	}{
		"one event, for 20 seconds": {func(_ int, e envelope, down time.Duration) bool {
			return e.ID == "T|50" && e.SeqNr == 5 && down < 20*time.Second
		}, 450},
		"all, for 20 seconds": {func(accepted int, _ envelope, down time.Duration) bool {
			return accepted >= 333 && down < 20*time.Second
		}, 100},
		"each 50th, until it is repeated": {func(accepted int, _ envelope, _ time.Duration) bool { return accepted%50 == 49 }, 900},
		"each 10th, until it is repeated": {func(accepted int, _ envelope, _ time.Duration) bool { return accepted%10 == 9 }, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				add(t, s, 1, 100, 10)
				accepted, last := 0, envelope{}
				var down time.Time
				r := must(t)(AtLeastOnceGrouped("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(_ context.Context, es []envelope) error {
					for _, e := range es {
						if down.IsZero() {
							down = time.Now()
						}
						refused := c.refuses(accepted, e, time.Since(down))
						if again := e.ID == last.ID && e.SeqNr == last.SeqNr; refused && !(again && len(es) == 1 && c.repeats > 500) {
							last = e
							return errors.New("refused")
						}
						accepted++
					}
					return nil
				}, Options{Ranges: 1, Logger: silent}))
				catchUp(t, r)
				if again := accepted - events; again < 0 || again > c.repeats {
					t.Errorf("%d events are accepted again, want at most %d", again, c.repeats)
				}
			})
		})
	}
}

// broken is an error whose methods panic for nil.
type broken struct{ err error }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

// An error whose methods cannot be called, such as a nil pointer, is a failure like a panic.
func TestErrorsThatAreNilPointers(t *testing.T) {
	t.Parallel()
	for _, worst := range []error{(*annals.Error)(nil), (*broken)(nil), &broken{(*annals.Error)(nil)}} {
		synctest.Test(t, func(t *testing.T) {
			in, asked := inMemory(memstore.New()), 0
			add(t, in.store, 1, 3, 3)
			catchUp(t, must(t)(in.once("p", in.store, func(e envelope) error {
				if e.ID == "T|2" && e.SeqNr == 2 {
					return worst
				}
				return nil
			}, Options{Logger: silent, OnError: func(_ context.Context, f Failure) Verdict {
				if asked++; !errors.Is(f.Err, annals.ErrPanic) {
					t.Errorf("asked about %v", f.Err)
				}
				return Skip
			}})))
			in.check(t, in.store, "T|2/2")
		})
	}
}
