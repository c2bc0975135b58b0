package process_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

type runner = process.Runner[note, map[string]int]

// begin returns a world in memory with a Runner.
func begin(t *testing.T) (*world, *runner) {
	t.Helper()
	return beginOn(t, memstore.New())
}

func beginOn(t *testing.T, store annals.Store) (*world, *runner) {
	t.Helper()
	w, err := newWorld(store)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.runner(w.store, listing, process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

func (w *world) do(t *testing.T, entity string, x wish) {
	t.Helper()
	if err := w.want(t.Context(), entity, x); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, r *runner) {
	t.Helper()
	if err := r.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantDone demands what an instance has done, in this order.
func (w *world) wantDone(t *testing.T, id string, want ...string) {
	t.Helper()
	if got, err := w.did(t.Context(), id); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: %q, %v, want %q", id, got, err, want)
	}
}

// wantGot demands the ids of the commands that a recipient has executed, in this order.
func (w *world) wantGot(t *testing.T, recipient string, want ...string) {
	t.Helper()
	if got, err := w.got(t.Context(), recipient); err != nil || !slices.Equal(got, want) {
		t.Errorf("recipient %s: %q, %v, want %q", recipient, got, err, want)
	}
}

func TestCommandsAndAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "There|t", wish{For: "a", Do: "ignore"})
		w.do(t, "Here|h", wish{For: "", Do: "fail"})
		settle(t, r)
		w.wantDone(t, "a", "ask x", "answered ask <nil> x")
		w.wantGot(t, "x", "Listing|a/1/1")
		w.wantGot(t, "x'", "Listing|a/1/2")
		w.do(t, "There|t", wish{For: "a", Do: "reject", Name: "x"})
		settle(t, r)
		w.wantDone(t, "a", "ask x", "answered ask <nil> x", "reject x", "answered reject the box rejects it x")
		w.wantGot(t, "x", "Listing|a/1/1")
		n, err := r.Load(t.Context(), "a")
		if err != nil || n.SeqNr != 8 || n.Version != 1 || n.Awaits != 0 || n.Waits || n.Ended || n.State["ask"] != 1 {
			t.Errorf("loaded %+v, %v", n, err)
		}
		w.do(t, "There|t", wish{For: "a", Do: "end"})
		w.do(t, "There|t", wish{For: "a", Do: "ask", Name: "x"})
		settle(t, r)
		if n, err = r.Load(t.Context(), "a"); err != nil || n.SeqNr != 10 || !n.Ended {
			t.Errorf("after its end %+v, %v", n, err)
		}
	})
}

// An input that waits when an answer ends its instance is ignored, as those that come later.
func TestEndWhileInputWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := begin(t)
		p := listing
		p.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
			step, err := listing.React(s, in)
			_, step.End = in.Value.(process.Answer)
			return step, err
		}
		r, err := w.runner(w.store, p, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "Here|h", wish{For: "a", Do: "fail"})
		runFor(t, r, time.Hour)
		wantParked(t, r)
		if n, err := r.Load(t.Context(), "a"); err != nil || !n.Ended || n.Waits {
			t.Errorf("loaded %+v, %v", n, err)
		}
	})
}

func TestTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "hour", After: time.Hour})
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "cancelled", After: time.Hour})
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "moved", After: time.Hour})
		settle(t, r)
		time.Sleep(time.Minute)
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "moved", After: time.Hour})
		time.Sleep(59*time.Minute - time.Second)
		settle(t, r)
		begun := []string{"set hour", "set cancelled", "set moved", "set moved"}
		w.wantDone(t, "a", begun...)
		w.do(t, "Here|h", wish{For: "a", Do: "cancel", Name: "cancelled"})
		settle(t, r)
		time.Sleep(time.Second)
		settle(t, r) // another program, say: nothing ran when the timers became due
		w.wantDone(t, "a", append(begun, "cancel cancelled", "fired hour")...)
		if n, err := r.Load(t.Context(), "a"); err != nil || len(n.Timers) != 1 || n.Timers[0].Name != "moved" {
			t.Errorf("loaded %+v, %v", n, err)
		}
		time.Sleep(time.Minute)
		settle(t, r)
		w.wantDone(t, "a", append(begun, "cancel cancelled", "fired hour", "fired moved")...)
		w.wantGot(t, "timers of a", "Listing|a/11/1", "Listing|a/13/1")
	})
}

// An input that cannot be handled holds up its instance, and nothing else: neither other instances, nor other events of its source.
func TestPoisonedInstance(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"fail", "panic"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r := begin(t)
				w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "t", After: time.Minute})
				w.do(t, "Here|h", wish{For: "a", Do: do})
				w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
				w.do(t, "Here|h", wish{For: "b", Do: "ask", Name: "x"})
				settle(t, r)
				time.Sleep(time.Minute)
				settle(t, r)
				w.wantDone(t, "a", "set t")
				w.wantDone(t, "b", "ask x", "answered ask <nil> x")
				if n, err := r.Load(t.Context(), "a"); err != nil || !n.Waits {
					t.Errorf("loaded %+v, %v", n, err)
				}
				wantParked(t, r, "Listing|a")

				mended := listing
				mended.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
					if x, ok := in.Value.(wish); ok && x.Do == do {
						x.Do = "ignore"
						in.Value = x
					}
					return listing.React(s, in)
				}
				r, err := w.runner(w.store, mended, process.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Control().Retry(t.Context(), "Listing|a"); err != nil {
					t.Fatal(err)
				}
				settle(t, r)
				w.wantDone(t, "a", "set t", "ask x", "fired t", "answered ask <nil> x")
				wantParked(t, r)
			})
		})
	}
}

// An event of the process that Evolve cannot handle is not stored: the input waits, and nothing is sent.
func TestPanicOfEvolve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := begin(t)
		bad := listing
		bad.Evolve = func(s map[string]int, n note) map[string]int {
			if n.Do == "ask" || n.Do == "fired" {
				panic("on purpose")
			}
			return listing.Evolve(s, n)
		}
		r, err := w.runner(w.store, bad, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "t", After: time.Minute})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "Here|h", wish{For: "b", Do: "set", Name: "t", After: time.Minute})
		settle(t, r)
		time.Sleep(2 * time.Minute)
		settle(t, r)
		for id, want := range map[string]annals.SeqNr{"a": 4, "b": 3} { // two inputs wait; one does
			if n, err := r.Load(t.Context(), id); err != nil || !n.Waits || n.SeqNr != want {
				t.Errorf("loaded %s: %+v, %v", id, n, err)
			}
			w.wantDone(t, id, "set t")
		}
		w.wantGot(t, "x")
		if r, err = w.runner(w.store, listing, process.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Control().Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		w.wantDone(t, "a", "set t", "ask x", "fired t", "answered ask <nil> x")
		w.wantDone(t, "b", "set t", "fired t")
		if n, err := r.Load(t.Context(), "a"); err != nil || n.Waits || n.State["ask"] != 1 || n.State["fired"] != 1 {
			t.Errorf("loaded %+v, %v", n, err)
		}
	})
}

func wantParked(t *testing.T, r *runner, want ...annals.PersistenceID) {
	t.Helper()
	var got []annals.PersistenceID
	for p, err := range r.Control().Parked(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q are parked, want %q", got, want)
	}
	for _, c := range r.Inputs() {
		for p, err := range c.Parked(t.Context(), "") {
			t.Errorf("source %q is parked, %v", p.ID, err)
		}
	}
}

// A recipient that fails holds up the instances that have commands for it, and nothing else. Nobody has to order the retry.
func TestPoisonedRecipient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.fail("x", &annals.Error{Op: "ask", Kind: annals.ErrUnavailable, Err: errors.New("on purpose")})
		for range 5 {
			w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
			w.do(t, "There|t", wish{For: "b", Do: "ask", Name: "y"})
		}
		settle(t, r)
		wantParked(t, r, "Listing|a")
		if got, err := w.got(t.Context(), "y"); err != nil || len(got) != 5 {
			t.Errorf("the other recipient has got %q, %v", got, err)
		}
		if got, err := w.got(t.Context(), "x"); err != nil || len(got) != 0 || w.sent["x"] != 1 {
			t.Errorf("the recipient has got %q, %v, and was asked %d times", got, err, w.sent["x"])
		}
		done := run(t, r)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := w.sent["x"]; n < 6 || n > 10 {
			t.Errorf("the recipient was asked %d times in 3 minutes", n)
		}
		w.fail("x", nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.wantGot(t, "x", "Listing|a/1/1", "Listing|a/3/1", "Listing|a/5/1", "Listing|a/7/1", "Listing|a/9/1")
		wantParked(t, r)
		done()
	})
}

// run runs r until the function is called that it returns.
func run(t *testing.T, r *runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// unwatched is a store that signals nothing, such as one on DynamoDB.
type unwatched struct{ *memstore.Store }

func (unwatched) Lacks(want any) error {
	if _, ok := want.(*ability.Watcher); ok {
		return errors.New("it signals nothing")
	}
	return nil
}

// Where nothing signals new events, each step of a process waits for a look, and no longer.
func TestPaceWithoutSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := beginOn(t, unwatched{memstore.New()})
		defer run(t, r)()
		for n := 2; n <= 12; n += 2 {
			time.Sleep(5 * time.Minute)
			w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
			time.Sleep(2500 * time.Millisecond) // one look for the event, one for the step
			if did, err := w.did(t.Context(), "a"); err != nil || len(did) != n {
				t.Errorf("done %q, %v, want %d notes", did, err, n)
			}
		}
	})
}

// An instance keeps the version under which it began.
func TestVersions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.do(t, "Here|h", wish{For: "old", Do: "ask", Name: "x"})
		settle(t, r)
		next := listing
		next.Version = 2
		r, err := w.runner(w.store, next, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"old", "new"} {
			w.do(t, "Here|h", wish{For: id, Do: "cancel"})
		}
		settle(t, r)
		for id, version := range map[string]int{"old": 1, "new": 2} {
			notes, _, err := w.notes(t.Context(), id)
			if err != nil || notes[len(notes)-1].Version != version {
				t.Errorf("%s: %+v, %v", id, notes, err)
			}
		}
	})
}

// The events of an entity that was forgotten, and begins again, are new. Those that are handed over again are not.
func TestForgottenSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		settle(t, r)
		if err := r.Inputs()[0].Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		if err := w.store.Journal().DeleteTo(t.Context(), "Here|h", annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
		if done, err := w.store.(*memstore.Store).Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Here|h"}); err != nil || !done {
			t.Fatal(done, err)
		}
		time.Sleep(time.Second)
		w.do(t, "Here|h", wish{For: "a", Do: "cancel", Name: "z"})
		settle(t, r)
		w.wantDone(t, "a", "ask x", "ask x", "answered ask <nil> x", "answered ask <nil> x", "cancel z")
	})
}

// A recipient that hangs, or fails slowly, holds up the others for the time of one command, and not again and again.
func TestHangingRecipient(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{errHang, errSlow} {
		t.Run(failure.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r := begin(t)
				w.fail("x", failure)
				for i := range 50 {
					w.do(t, "Here|h", wish{For: fmt.Sprint("i", i), Do: "ask", Name: "x"})
				}
				w.do(t, "Here|h", wish{For: "b", Do: "ask", Name: "y"})
				begun := time.Now()
				settle(t, r)
				if took := time.Since(begun); took > 25*time.Second { // one for each of the ranges would be 40
					t.Errorf("it took %v", took)
				}
				w.wantGot(t, "y", "Listing|b/1/1")
				w.fail("x", nil)
				done := run(t, r)
				time.Sleep(3 * time.Minute)
				done()
				if got, err := w.got(t.Context(), "x"); err != nil || len(got) != 50 {
					t.Errorf("the recipient has got %d commands, %v", len(got), err)
				}
				wantParked(t, r)
			})
		})
	}
}

// AskOnce makes a recipient of any entity: a command that is sent again has no effect.
func TestAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := begin(t)
		texts, err := aggregate.New(w.store, behavior.EventSourced[string, string, int, int]{
			Type:   "Text",
			Decide: func(_ int, s string) ([]string, error) { return []string{s}, nil },
			Evolve: func(n int, _ string) int { return n + 1 },
		}, aggregate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		from := process.From(projection.Source[wish]{Store: w.store, Type: "Here", Codec: codec.JSON[wish]("Here")},
			func(e projection.Envelope[wish]) string { return e.Value.For })
		r, err := process.New(w.store, listing, []process.Source{from}, []process.Recipients{process.To(toBoxes, texts.AskOnce)}, process.Options{Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		}
		settle(t, r)
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		if n, _, err := texts.Load(t.Context(), "x"); err != nil || n != 3 {
			t.Errorf("the recipient has executed %d commands, %v", n, err)
		}
		w.wantDone(t, "a", "ask x", "ask x", "ask x", "answered ask <nil> x", "answered ask <nil> x", "answered ask <nil> x")
	})
}

// A React that ends its goroutine loses no input, as one that panics does not.
func TestReactEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldInMemory(t)
		p, ended := listing, sync.Map{}
		p.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
			if _, before := ended.LoadOrStore(fmt.Sprintf("%T", in.Value), true); !before {
				runtime.Goexit()
			}
			return listing.React(s, in)
		}
		r, err := w.runner(w.store, p, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "t", After: time.Minute})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		runFor(t, r, 10*time.Minute)
		w.wantDone(t, "a", "set t", "ask x", "answered ask <nil> x", "fired t")
	})
}
