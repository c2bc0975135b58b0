package process_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
		w := newWorldInMemory(t)
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
		w := newWorldInMemory(t)
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

// stopped returns two Runners of the instances a and b, which send a command each. The first Runner has carried out the step of a, and
// was stopped when that of b had failed. sent counts the commands by recipient.
func stopped(t *testing.T) (w *world, first, second *runner, sent map[string]int) {
	t.Helper()
	w, err := newWorld(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent = map[string]int{}
	send := func(_ context.Context, _, recipient, _ string) (int, error) {
		if recipient == "y" && ctx.Err() == nil {
			time.AfterFunc(time.Nanosecond, cancel) // when a and b have been carried out, and b will be carried out alone
			return 0, &annals.Error{Op: "ask", Kind: annals.ErrUnavailable}
		}
		sent[recipient]++
		return 0, nil
	}
	first, second = w.sending(t, codec.JSON[string]("text"), send), w.sending(t, codec.JSON[string]("text"), send)
	w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
	w.do(t, "Here|h", wish{For: "b", Do: "ask", Name: "y"})
	if err := first.Settle(ctx); err == nil {
		t.Fatal("it was not ended")
	}
	return w, first, second, sent
}

// What a Runner remembers of an instance is not taken for that of one that was forgotten and begins again.
func TestForgottenInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, first, second, sent := stopped(t)
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

// What a Runner remembers of a step is not taken for what has become of it after a Reset.
func TestResetAfterFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, first, second, sent := stopped(t)
		settle(t, second)
		if err := second.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		clear(sent)
		settle(t, first)
		wantParked(t, first)
		if want := map[string]int{"x": 1, "x'": 1, "y": 1, "y'": 1}; !maps.Equal(sent, want) {
			t.Errorf("after the Reset the recipients have got %v", sent)
		}
	})
}

// What cannot be stored of a timer or a command as it is, is refused when React returns it, and not when its step is carried out.
func TestStepsThatAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, step := range []process.Step[note]{
		{Timers: []process.Timer{{Name: "t"}}},
		{Timers: []process.Timer{{Name: "t", Due: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)}}},
		{Timers: []process.Timer{{Name: "t", Due: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -5*3600))}}},
		{Timers: []process.Timer{{Due: now}}},
		{Timers: []process.Timer{{Name: strings.Repeat("x", 1025), Due: now}}},
		{Timers: []process.Timer{{Name: strings.Repeat("\xff", 1024), Due: now}}},
		{Commands: []process.Command{toBoxes.Tell("\xff", "text")}},
		{Commands: []process.Command{process.NewTarget("\xff", codec.JSON[string]("text")).Tell("x", "text")}},
	} {
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		p := listing
		p.React = func(map[string]int, process.Input) (process.Step[note], error) {
			return step, nil
		}
		r, err := w.runner(w.store, p, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a"})
		settle(t, r)
		if n, err := r.Load(t.Context(), "a"); err != nil || !n.Waits || len(n.Timers) > 0 {
			t.Errorf("%+v: loaded %+v, %v", step, n, err)
		}
	}
}

// A command that fails again and again does not add the timers of its step again each time.
func TestTimersOfFailingStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldInMemory(t)
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

// What waits can be left out, and the instance goes on.
func TestDiscard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := begin(t)
		w.do(t, "Here|h", wish{For: "a", Do: "fail"})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		settle(t, r)
		if err := r.Control().Discard(t.Context(), "Listing|a", 1); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		w.do(t, "There|t", wish{For: "a", Do: "cancel", Name: "z"})
		settle(t, r)
		w.wantDone(t, "a", "ask x", "answered ask <nil> x", "cancel z")
		if n, err := r.Load(t.Context(), "a"); err != nil || n.Waits {
			t.Errorf("loaded %+v, %v", n, err)
		}

		w.do(t, "Here|h", wish{For: "b", Do: "fail"})
		settle(t, r)
		if err := r.Control().Discard(t.Context(), "Listing|b", annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		wantParked(t, r)
		if n, err := r.Load(t.Context(), "b"); err != nil || !n.Waits {
			t.Errorf("after Discard %+v, %v", n, err)
		}
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		wantParked(t, r, "Listing|b")

		w.fail("y", &annals.Error{Op: "ask", Kind: annals.ErrUnavailable})
		w.do(t, "Here|h", wish{For: "c", Do: "ask", Name: "y"})
		settle(t, r)
		if err := r.Control().Discard(t.Context(), "Listing|c", annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
		w.fail("y", nil)
		settle(t, r)
		w.wantGot(t, "y")
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		w.wantGot(t, "y", "Listing|c/1/1")
	})
}

// A recipient may take as long as Options.SendTimeout says.
func TestLongSendTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := begin(t)
		w.flaky = func() error { time.Sleep(7 * time.Minute); return nil } // comes twice
		r, err := w.runner(w.store, listing, process.Options{SendTimeout: 20 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		runFor(t, r, time.Hour)
		w.wantDone(t, "a", "ask x", "answered ask <nil> x")
		wantParked(t, r)
	})
}

// Commands to one recipient that take longer together than a handler of a projection may: those that were executed are not sent again.
func TestManyCommandsOfSlowRecipient(t *testing.T) {
	t.Parallel()
	const n = 40
	for name, c := range map[string]struct{ steps, commands int }{"of one step": {1, n}, "of many instances": {n, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, _ := begin(t)
				w.flaky = func() error { time.Sleep(4 * time.Second); return nil } // comes twice
				p := listing
				p.React = func(map[string]int, process.Input) (process.Step[note], error) {
					return process.Step[note]{Commands: slices.Repeat([]process.Command{toBoxes.Tell("x", "text")}, c.commands)}, nil
				}
				r, err := w.runner(w.store, p, process.Options{Ranges: 1})
				if err != nil {
					t.Fatal(err)
				}
				for i := range c.steps {
					w.do(t, "Here|h", wish{For: fmt.Sprint("i", i)})
				}
				runFor(t, r, time.Hour)
				if got, err := w.got(t.Context(), "x"); err != nil || len(got) != n || w.sent["x"] > n+1 {
					t.Errorf("the recipient has got %d commands, and was asked %d times, %v", len(got), w.sent["x"], err)
				}
				wantParked(t, r)
			})
		})
	}
}

// Settle goes on until the steps of another Runner have been carried out, too.
func TestSettleBesideAnotherRunner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := begin(t)
		w.flaky = func() error { time.Sleep(time.Second); return nil }
		p := listing
		p.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
			step, err := listing.React(s, in)
			if s["answered ask <nil>"] < 9 {
				step.Commands = []process.Command{toBoxes.Ask("x", "ask")}
			}
			return step, err
		}
		var runners [2]*runner
		for i := range runners {
			var err error
			if runners[i], err = w.runner(w.store, p, process.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		defer run(t, runners[0])()
		time.Sleep(time.Minute) // it has all ranges
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		settle(t, runners[1])
		if got, err := w.got(t.Context(), "x"); err != nil || len(got) != 10 {
			t.Errorf("after Settle the recipient has got %q, %v", got, err)
		}
	})
}

// When Run is to end, no more commands are sent: a recipient that does not look at its context holds it up once.
func TestStopWhileSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldInMemory(t)
		var sent atomic.Int64
		r := w.sending(t, codec.JSON[string]("text"), func(context.Context, string, string, string) (int, error) {
			sent.Add(1)
			time.Sleep(5 * time.Second)
			return 0, nil
		})
		for i := range 500 {
			w.do(t, "Here|h", wish{For: fmt.Sprint("i", i), Do: "ask", Name: fmt.Sprint("x", i)})
		}
		stop := run(t, r)
		time.Sleep(3 * time.Second)
		before, begun := sent.Load(), time.Now()
		stop()
		if took := time.Since(begun); took > 5*time.Second || sent.Load() > before || before == 0 {
			t.Errorf("it took %v to end; %d commands were sent before, and then %d", took, before, sent.Load()-before)
		}
	})
}

// choosy is a codec that cannot decode a text.
type choosy struct {
	codec.Codec[string]
	not string
}

func (c choosy) Decode(p annals.Payload) (string, error) {
	text, err := c.Codec.Decode(p)
	if text == c.not {
		err = errors.New("on purpose")
	}
	return text, err
}

// What fails of one instance does not hold up the commands of others to the same recipient, also when nothing is tried again.
func TestFaultOfOneInstance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string // that cannot be decoded
		failure error
		answer  error
	}{
		"decode": {text: "reject"},
		"send":   {failure: &annals.Error{Op: "ask", Kind: annals.ErrTooLarge}},
		"answer": {answer: errors.New("on purpose")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldInMemory(t)
				p := listing
				p.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
					a, ok := in.Value.(process.Answer)
					if ok && a.Reply != 0 {
						t.Errorf("the reply of a rejection is %v", a.Reply)
					}
					if ok && c.answer != nil && in.ID == "a" {
						return process.Step[note]{}, c.answer
					}
					return listing.React(s, in)
				}
				from := process.From(projection.Source[wish]{Store: w.store, Type: "Here", Codec: codec.JSON[wish]("Here")},
					func(e projection.Envelope[wish]) string { return e.Value.For })
				to := process.To(process.NewTarget[string]("boxes", choosy{codec.JSON[string]("text"), c.text}), func(_ context.Context, key, _, _ string) (int, error) {
					if strings.HasPrefix(key, "Listing|a/") && c.failure != nil {
						return 0, c.failure
					}
					return 1, errRejected // which waits nowhere when React cannot handle it
				})
				r, err := process.New(w.store, p, []process.Source{from}, []process.Recipients{to}, process.Options{Ranges: 1, Logger: silent})
				if err != nil {
					t.Fatal(err)
				}
				w.do(t, "Here|h", wish{For: "a", Do: "reject", Name: "x"})
				for _, id := range []string{"b", "c"} {
					w.do(t, "Here|h", wish{For: id, Do: "ask", Name: "x"})
				}
				settle(t, r)
				wantParked(t, r, "Listing|a")
				for _, id := range []string{"b", "c"} {
					w.wantDone(t, id, "ask x", "answered ask the box rejects it x")
				}
			})
		})
	}
}
