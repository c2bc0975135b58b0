package process_test

import (
	"context"
	"encoding/json"
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
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// reply is one that JSON stores as it is, unless Lost or Secret is set.
type reply struct {
	Text   string
	Lost   chan struct{} `json:"-"`
	Secret bool          `json:"-"`
}

// MarshalJSON is json.Marshaler.
func (r reply) MarshalJSON() ([]byte, error) {
	if r.Secret {
		return nil, errors.New("it must not be stored")
	}
	type plain reply
	return json.Marshal(plain(r))
}

// An answer that React cannot handle is stored, so that the command is not sent again: the recipient may not know its key any more. A reply that
// cannot be stored, and a rejection, are asked for again. What comes later for the instance waits.
func TestAnswerWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply reply
		err   error
		again bool
		want  string
	}{
		"reply":     {reply: reply{Text: "hello"}, want: "answered hello <nil> x"},
		"no reply":  {want: "answered  <nil> x"},
		"no codec":  {reply: reply{Text: "hello", Lost: make(chan struct{})}, again: true, want: "answered hello <nil> x"},
		"secret":    {reply: reply{Text: "hello", Secret: true}, again: true, want: "answered hello <nil> x"},
		"rejection": {err: errRejected, again: true, want: "answered  the box rejects it x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldInMemory(t)
				var broken atomic.Bool
				broken.Store(true)
				p := listing
				p.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
					a, ok := in.Value.(process.Answer)
					switch {
					case !ok:
						return listing.React(s, in)
					case broken.Load():
						return process.Step[note]{}, errors.New("on purpose")
					case a.Command.Value != "ask" || !a.Command.Asks:
						t.Errorf("answer to %+v", a.Command)
					}
					return process.Step[note]{Events: []note{{wish: wish{Do: "answered " + a.Reply.(reply).Text + " " + errorText(a.Err), Name: a.Command.Recipient}}}}, nil
				}
				var sent atomic.Int64
				begin := func() *runner {
					from := process.From(projection.Source[wish]{Store: w.store, Type: "Here", Codec: codec.JSON[wish]("Here")},
						func(e projection.Envelope[wish]) string { return e.Value.For })
					to := process.To(toBoxes, func(_ context.Context, _, recipient, _ string) (reply, error) {
						if recipient != "x" {
							return reply{}, nil
						}
						sent.Add(1)
						return c.reply, c.err
					})
					r, err := process.New(w.store, p, []process.Source{from}, []process.Recipients{to}, process.Options{Ranges: 1, Logger: silent})
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
				for range 2 { // the program is stopped, and started again
					runFor(t, begin(), 4*time.Minute)
					time.Sleep(48 * time.Hour)
				}
				if again := sent.Load() > 1; again != c.again {
					t.Errorf("the command was sent %d times", sent.Load())
				}
				w.do(t, "Here|h", wish{For: "a", Do: "cancel", Name: "z"})
				settle(t, begin())
				broken.Store(false)
				r := begin()
				runFor(t, r, 4*time.Minute)
				want := []string{"ask x", c.want, "cancel z"}
				if c.again { // it did not wait in the journal
					want = []string{"ask x", "cancel z", c.want}
				}
				w.wantDone(t, "a", want...)
				wantParked(t, r)
				if n, err := r.Load(t.Context(), "a"); err != nil || n.Waits || n.Awaits != 0 {
					t.Errorf("loaded %+v, %v", n, err)
				}
			})
		})
	}
}

// runFor runs r for the time d.
func runFor(t *testing.T, r *runner, d time.Duration) {
	t.Helper()
	stop := run(t, r)
	time.Sleep(d)
	stop()
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

// A command that was executed is not sent again for as long as another one of its instance fails: the recipient may not know its key any more.
// Reset sends it again.
func TestCommandsBesideOneThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldInMemory(t)
		var fails atomic.Bool
		fails.Store(true)
		late := map[string]int{} // what the recipients have got of keys that they do not know any more
		known := map[string]time.Time{}
		send := func(_ context.Context, key, recipient, _ string) (int, error) {
			if recipient == "y'" && fails.Load() {
				return 0, &annals.Error{Op: "ask", Kind: annals.ErrUnavailable, Err: errors.New("on purpose")}
			}
			if at, ok := known[key]; !ok {
				known[key] = time.Now()
			} else if time.Since(at) > 24*time.Hour {
				late[key]++
			}
			return 0, nil
		}
		begin := func() *runner { return w.sending(t, codec.JSON[string]("text"), send) }
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "y"}) // y executes its command, and y' does not
		w.do(t, "Here|h", wish{For: "a", Do: "reject", Name: "x"})
		for range 2 {
			runFor(t, begin(), 4*time.Minute)
			time.Sleep(48 * time.Hour)
		}
		fails.Store(false)
		r := begin()
		runFor(t, r, 4*time.Minute)
		wantParked(t, r)
		if len(late) > 0 {
			t.Errorf("recipients have got commands again after days: %v", late)
		}
		all := slices.Sorted(maps.Keys(known))
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(48 * time.Hour)
		settle(t, r)
		if again := slices.Sorted(maps.Keys(late)); !slices.Equal(again, all) {
			t.Errorf("Reset has sent %q, want %q", again, all)
		}
	})
}

// What is noted of steps that wait counts after a Reset, because they were not carried out before it. A Reset when they have been carried out sends all again.
func TestResetOfParkedInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldInMemory(t)
		fails, sent := true, map[string]int{}
		r := w.sending(t, codec.JSON[string]("text"), func(_ context.Context, key, recipient, _ string) (int, error) {
			if recipient == "y'" && fails {
				return 0, &annals.Error{Op: "ask", Kind: annals.ErrUnavailable, Err: errors.New("on purpose")}
			}
			sent[key]++
			return 0, nil
		})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "y"})
		runFor(t, r, time.Hour)
		wantParked(t, r, "Listing|a")
		clear(sent)
		fails = false
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		if want := map[string]int{"Listing|a/1/2": 1}; !maps.Equal(sent, want) {
			t.Errorf("the Reset has sent %v, want %v", sent, want)
		}
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		if want := map[string]int{"Listing|a/1/1": 1, "Listing|a/1/2": 2}; !maps.Equal(sent, want) {
			t.Errorf("both have sent %v, want %v", sent, want)
		}
	})
}

// Steps as they were stored before answers could wait are read, and carried out.
func TestStoredSteps(t *testing.T) {
	t.Parallel()
	w, err := newWorld(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	stored := annals.Commit{ID: "Listing|a"}
	for _, step := range []string{
		`{"version":1,"cause":{"entity":"Here|h","seqNr":1,"time":1},"timers":[{"name":"t","due":1000000}],
			"commands":[{"target":"boxes","recipient":"x","value":{"serializer":31,"manifest":"text","data":"ImFzayI="},"asks":true}]}`,
		`{"version":1,"cause":{"timer":"t","due":1000000},"waits":{}}`,
		`{"version":1,"cause":{"entity":"Here|h","seqNr":2,"time":2},"waits":{"value":{"serializer":31,"manifest":"Here","data":"eyJEbyI6ImNhbmNlbCIsIk5hbWUiOiJ6In0="},"tags":["red"]}}`,
	} {
		p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "annals.process.step", Data: []byte(step)}
		stored.Events = append(stored.Events, annals.NewEvent{Payload: p})
	}
	if _, err := w.store.Journal().Append(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	r, err := w.runner(w.store, listing, process.Options{Ranges: 1})
	if err != nil {
		t.Fatal(err)
	}
	settle(t, r)
	w.wantGot(t, "x", "Listing|a/1/1")
	if got, err := w.got(t.Context(), "timers of a"); err != nil || len(got) != 1 {
		t.Errorf("the timer has sent %q, %v", got, err)
	}
	done, err := w.did(t.Context(), "a")
	if slices.Sort(done); err != nil || !slices.Equal(done, []string{"answered ask <nil> x", "cancel z", "fired t"}) {
		t.Errorf("it has done %q, %v", done, err)
	}
	if n, err := r.Load(t.Context(), "a"); err != nil || n.Waits || n.Awaits != 0 || len(n.Timers) > 0 {
		t.Errorf("loaded %+v, %v", n, err)
	}
}

// A command of one instance fails slowly again and again. Those of others to the same recipient get through all the same.
func TestSlowFaultOfOneInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldInMemory(t)
		r := w.sending(t, codec.JSON[string]("text"), func(_ context.Context, key, _, _ string) (int, error) {
			if strings.HasPrefix(key, "Listing|a/") {
				time.Sleep(5 * time.Second)
				return 0, errSlow
			}
			return 1, nil
		})
		w.do(t, "Here|h", wish{For: "a", Do: "ask", Name: "x"})
		for i := range 30 {
			w.do(t, "Here|h", wish{For: fmt.Sprint("i", i), Do: "ask", Name: "x"})
		}
		runFor(t, r, time.Hour)
		wantParked(t, r, "Listing|a")
	})
}

// A recipient whose failures take long together holds up the others for a short time, too. One that answers between them is not left alone.
func TestManySlowFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ each, want int }{"all": {1, 2}, "each second": {2, 100}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldInMemory(t)
				sent := 0
				r := w.sending(t, codec.JSON[string]("text"), func(_ context.Context, _, recipient, _ string) (int, error) {
					if recipient != "x" {
						return 1, nil
					}
					if sent++; sent%c.each != 0 {
						return 1, nil
					}
					time.Sleep(900 * time.Millisecond)
					return 0, errSlow
				})
				for i := range 100 {
					w.do(t, "Here|h", wish{For: fmt.Sprint("i", i), Do: "ask", Name: "x"})
				}
				settle(t, r)
				if sent != c.want {
					t.Errorf("the recipient was asked %d times, want %d", sent, c.want)
				}
			})
		})
	}
}
