package process_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// sending returns a Runner of listing whose commands are decoded by c, and sent by send.
func (w *world) sending(t *testing.T, c codec.Codec[string], send func(ctx context.Context, key, recipient, text string) (int, error)) *runner {
	t.Helper()
	from := process.From(projection.Source[wish]{Store: w.store, Type: "Here", Codec: codec.JSON[wish]("Here")},
		func(e projection.Envelope[wish]) string { return e.Value.For })
	to := process.To(process.NewTarget("boxes", c), send)
	r, err := process.New(w.store, listing, []process.Source{from}, []process.Recipients{to}, process.Options{Ranges: 1, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// panicking is a codec that decodes nothing.
type panicking struct{ codec.Codec[string] }

func (panicking) Decode(annals.Payload) (string, error) { panic("on purpose") }

// A command whose codec panics waits, as one that cannot be decoded.
func TestPanicOfCodec(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		r := w.sending(t, panicking{codec.JSON[string]("text")}, func(context.Context, string, string, string) (int, error) { return 0, nil })
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "Here|h", wish{For: "b", Do: "set", Name: "t"})
		settle(t, r)
		wantParked(t, r, "Listing|a")
		for p, err := range r.Control().Parked(t.Context(), "") {
			if err != nil || p.Kind != annals.ErrPanic.Error() {
				t.Errorf("parked %+v, %v", p, err)
			}
		}
	})
}

// Whatever a recipient returns after its time has ended is no rejection: the command is sent again.
func TestErrorAfterSendTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		r := w.sending(t, codec.JSON[string]("text"), func(ctx context.Context, _, recipient, _ string) (int, error) {
			if recipient == "x'" {
				return 0, nil
			}
			if sent++; sent == 1 {
				<-ctx.Done()
				return 0, errors.New("interrupted")
			}
			return 0, nil
		})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		settle(t, r)
		wantParked(t, r, "Listing|a")
		done := run(t, r)
		time.Sleep(2 * time.Minute)
		done()
		w.wantDone(t, "a", "ask x", "answered ask <nil> x")
	})
}

// A Settle that finds a step whose timer was not handed over yet fires it, when it is due.
func TestSettleFiresTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.do(t, "Here|h", wish{For: "a", Do: "set", Name: "t", After: time.Second})
		failing, err := w.runner(&faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Writes && c.ID.Type() == "annals.calendar-chunk" {
				return faulty.Failed(c)
			}
			return run()
		}}, listing, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := failing.Settle(ctx); err == nil {
			t.Fatal("no error")
		}
		settle(t, r)
		w.wantDone(t, "a", "set t", "fired t")
	})
}

// What a Runner remembers of an instance is not taken for that of one that was forgotten and begins again.
func TestForgottenInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent := map[string]int{}
		send := func(_ context.Context, _, recipient, _ string) (int, error) {
			if recipient == "y" && ctx.Err() == nil {
				time.AfterFunc(time.Nanosecond, cancel) // when a and b have been carried out, and b will be carried out alone
				return 0, &annals.Error{Op: "ask", Kind: annals.ErrUnavailable}
			}
			sent[recipient]++
			return 0, nil
		}
		first, second := w.sending(t, codec.JSON[string]("text"), send), w.sending(t, codec.JSON[string]("text"), send)
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		w.do(t, "Here|h", wish{For: "b", Do: "ask", Name: "y"})
		if err := first.Settle(ctx); err == nil {
			t.Fatal("it was not ended")
		}
		settle(t, second)
		before := sent["x"]
		if err := w.store.Journal().DeleteTo(t.Context(), "Listing|a", annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
		if done, err := w.store.(*memstore.Store).Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Listing|a"}); err != nil || !done {
			t.Fatal(done, err)
		}
		time.Sleep(time.Second)
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		settle(t, first)
		if sent["x"] != before+1 {
			t.Errorf("the recipient has got %d commands, then %d", before, sent["x"])
		}
	})
}

// The time of a timer is refused when React returns it, and not when its step is carried out.
func TestTimesOfTimers(t *testing.T) {
	t.Parallel()
	for _, due := range []time.Time{
		{}, time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -5*3600)),
	} {
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		p := listing
		p.React = func(map[string]int, process.Input) (process.Step[note], error) {
			return process.Step[note]{Timers: []process.Timer{{Name: "t", Due: due}}}, nil
		}
		r, err := w.runner(w.store, p, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a"})
		settle(t, r)
		if n, err := r.Load(t.Context(), "a"); err != nil || !n.Waits || len(n.Timers) > 0 {
			t.Errorf("due at %v: loaded %+v, %v", due, n, err)
		}
	}
}

// A command that fails again and again does not add the timers of its step again each time.
func TestTimersOfFailingStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		w.fail("x", &annals.Error{Op: "ask", Kind: annals.ErrUnavailable, Err: errors.New("on purpose")})
		p := listing
		p.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
			step, err := listing.React(s, in)
			step.Timers = append(step.Timers, process.Timer{Name: "day", Due: in.Time.Add(24 * time.Hour)})
			return step, err
		}
		var added atomic.Int64
		r, err := w.runner(&faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Writes && c.ID.Type() == "annals.calendar-chunk" {
				added.Add(1)
			}
			return run()
		}}, p, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		done := run(t, r)
		time.Sleep(3 * time.Minute)
		done()
		if w.sent["x"] < 5 || added.Load() != 1 {
			t.Errorf("%d tries have written timers %d times", w.sent["x"], added.Load())
		}
	})
}
