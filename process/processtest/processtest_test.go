package processtest_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/process/processtest"
)

// A reminder asks for a payment, and reminds of it each day, three times at most.
type (
	billed struct{ Customer string }
	paid   struct{}
)

var letters = process.NewTarget("letters", codec.JSON[string]("letter"))

var reminder = process.Process[string, int]{
	Type:    "Reminder",
	Version: 2,
	React: func(sent int, in process.Input) (process.Step[string], error) {
		day := []process.Timer{{Name: "day", Due: in.Time.Add(24 * time.Hour)}}
		switch v := in.Value.(type) {
		case billed:
			return process.Step[string]{Events: []string{"asked"}, Commands: []process.Command{letters.Ask(v.Customer, "pay")}, Timers: day}, nil
		case paid:
			return process.Step[string]{Cancel: []string{"day"}}, nil
		case process.Answer:
			if v.Err != nil {
				return process.Step[string]{End: true}, nil
			}
			return process.Step[string]{}, nil
		case process.Fired:
			if sent == 3 || in.Version == 1 {
				return process.Step[string]{End: true}, nil
			}
			return process.Step[string]{Events: []string{"reminded"}, Commands: []process.Command{letters.Tell("c", "remind")}, Timers: day}, nil
		}
		return process.Step[string]{}, errors.New("unknown")
	},
	Evolve: func(sent int, _ string) int { return sent + 1 },
}

func TestInstance(t *testing.T) {
	t.Parallel()
	n := processtest.New(t, reminder, "r")
	n.Event(billed{"c"})
	asked := n.Commands()
	if want := []process.Command{letters.Ask("c", "pay")}; !reflect.DeepEqual(asked, want) {
		t.Errorf("the commands are %+v", asked)
	}
	if s := n.Answer(asked[0], true, nil); len(s.Commands) > 0 || n.State() != 1 {
		t.Errorf("the answer causes %+v, the state is %d", s, n.State())
	}
	begun := n.Now()
	if fired := n.Pass(24*time.Hour - time.Nanosecond); fired != 0 || len(n.Commands()) > 0 {
		t.Errorf("%d timers were fired before their time", fired)
	}
	if fired := n.Pass(24 * time.Hour); fired != 1 || len(n.Commands()) != 1 || len(n.Commands()) != 0 {
		t.Errorf("%d timers were fired", fired)
	}
	if next := n.Timers(); len(next) != 1 || !next[0].Due.Equal(begun.Add(48*time.Hour)) {
		t.Errorf("the timers are %v", next)
	}
	n.EventOf(annals.Event{Time: n.Now()}, paid{})
	if n.Pass(1000*time.Hour) != 0 || n.Ended() || n.State() != 2 {
		t.Error("a timer was fired that was cancelled")
	}
	if _, err := n.React(process.Input{Value: 1}); err == nil {
		t.Error("no error")
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	n := processtest.New(t, reminder, "r")
	n.Event(billed{"c"})
	if fired := n.Pass(1000 * time.Hour); fired != 3 || !n.Ended() || len(n.Timers()) > 0 {
		t.Errorf("%d timers were fired; it has ended: %v", fired, n.Ended())
	}
	if s := n.Event(billed{"c"}); len(s.Commands) > 0 {
		t.Errorf("after its end it sends %+v", s)
	}
	n = processtest.New(t, reminder, "r")
	n.Event(billed{"c"})
	n.Answer(n.Commands()[0], nil, errors.New("unknown address"))
	if !n.Ended() {
		t.Error("it goes on after the rejection")
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	old := reminder
	old.Version = 1
	n := processtest.New(t, old, "r")
	n.Event(billed{"c"})
	n.Upgrade(reminder)
	if n.Pass(24*time.Hour) != 1 || !n.Ended() {
		t.Error("it has forgotten the version under which it began")
	}
	next := reminder
	next.Init = func(string) int { return 100 }
	next.Evolve = func(sent int, _ string) int { return sent + 10 }
	n.Upgrade(next)
	if n.State() != 110 {
		t.Errorf("the state is %d, as if the events had not been read again", n.State())
	}
	next.Events = codec.JSON[string]("another manifest")
	if text := fatally(t, func(tb testing.TB) {
		n := processtest.New(tb, reminder, "r")
		n.Event(billed{"c"})
		n.Upgrade(next)
	}); !strings.Contains(text, "decode") {
		t.Errorf("events that cannot be read: %q", text)
	}
}

// What a Runner refuses, or never does, ends the test.
func TestRefused(t *testing.T) {
	t.Parallel()
	counting := process.Process[string, map[string]int]{
		Type: "Counting",
		Init: func(string) map[string]int { return map[string]int{} },
		React: func(s map[string]int, _ process.Input) (process.Step[string], error) {
			s["n"]++
			return process.Step[string]{}, nil
		},
		Evolve: func(s map[string]int, _ string) map[string]int { return s },
	}
	for what, test := range map[string]func(tb testing.TB){
		"a state that React changes": func(tb testing.TB) { processtest.New(tb, counting, "c").Event(1) },
		"a recipient": func(tb testing.TB) {
			processtest.New(tb, reacting(process.Step[string]{Commands: []process.Command{letters.Tell("\xff", "pay")}}), "r").Event(1)
		},
		"a name": func(tb testing.TB) {
			processtest.New(tb, reacting(process.Step[string]{Cancel: []string{"\xff"}}), "r").Event(1)
		},
		"a second answer": func(tb testing.TB) {
			n := processtest.New(tb, reminder, "r")
			n.Event(billed{"c"})
			asked := n.Commands()[0]
			n.Answer(asked, true, nil)
			n.Answer(asked, true, nil)
		},
		"an answer to nothing": func(tb testing.TB) { processtest.New(tb, reminder, "r").Answer(letters.Ask("c", "pay"), true, nil) },
	} {
		if fatally(t, test) == "" {
			t.Errorf("%s: the test goes on", what)
		}
	}
}

// reacting is a reminder whose React returns s.
func reacting(s process.Step[string]) process.Process[string, int] {
	p := reminder
	p.React = func(int, process.Input) (process.Step[string], error) { return s, nil }
	return p
}

// Two encodings of an event that is sealed differ.
func TestSealedEvents(t *testing.T) {
	t.Parallel()
	master, err := sealed.AES(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := sealed.NewKeys(memstore.New(), master, sealed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := reacting(process.Step[string]{Events: []string{"asked"}})
	p.Events = sealed.Payloads(codec.JSON[string]("letter"), keys, func(string) string { return "c" }, func(string) string { return "" })
	n := processtest.New(t, p, "r")
	if n.Event(billed{"c"}); n.State() != 1 {
		t.Errorf("the state is %d", n.State())
	}
}

// fatal is a testing.TB that records the end of a test.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatally returns with what text a test has ended, "" when it has not.
func fatally(t *testing.T, test func(tb testing.TB)) string {
	f, ended := &fatal{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.text
}

// A timer that a Runner refuses ends the test, and so does one that is set again for the same time whenever it is fired.
func TestWrongTimers(t *testing.T) {
	t.Parallel()
	for what, timer := range map[string]process.Timer{
		"no name":       {Due: time.Unix(1, 0)},
		"a long name":   {Name: strings.Repeat("n", 1025), Due: time.Unix(1, 0)},
		"no text":       {Name: "\xff", Due: time.Unix(946_684_800+1, 0)},
		"no time":       {Name: "n"},
		"an early year": {Name: "n", Due: time.Date(1, 12, 31, 0, 0, 0, 0, time.UTC)},
		"a late year":   {Name: "n", Due: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)},
		"the past":      {Name: "n", Due: time.Unix(1, 0)},
	} {
		if fatally(t, func(tb testing.TB) {
			n := processtest.New(tb, reacting(process.Step[string]{Timers: []process.Timer{timer}}), "r")
			n.Event(billed{"c"})
			n.Pass(0)
		}) == "" {
			t.Errorf("%s: the test goes on", what)
		}
	}
	n := processtest.New(t, reacting(process.Step[string]{Timers: []process.Timer{{Name: "n", Due: time.Unix(1, 1)}}}), "r")
	if n.Event(billed{"c"}); !n.Timers()[0].Due.Equal(time.UnixMicro(1_000_001)) {
		t.Errorf("the timers are %v, want the time rounded up to microseconds", n.Timers())
	}
}

// An event that causes nothing is not stored: the instance begins later, under the version of then.
func TestEventWithoutEffect(t *testing.T) {
	t.Parallel()
	p := reacting(process.Step[string]{})
	p.Version = 1
	n := processtest.New(t, p, "r")
	n.Event(billed{"c"})
	n.Upgrade(reminder)
	n.Event(billed{"c"})
	if n.Pass(24*time.Hour) != 1 || n.Ended() {
		t.Error("it has the version of an event that caused nothing")
	}
}
