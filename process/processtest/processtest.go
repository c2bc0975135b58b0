// Package processtest tests process managers without a store: a test gives an instance its inputs, moves the clock, and looks at the commands and timers.
//
//	order := processtest.New(t, checkout, "o-1")
//	order.Event(Placed{Item: "pen"})
//	order.Pass(30 * time.Minute)
//	got := order.Commands()
//
// Each event of the process is encoded and decoded by its codec, as if it had been stored and read, and each command is encoded. A React that changes the
// state that it was given ends the test.
package processtest

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/host"
	"github.com/annals-go/annals/process"
)

// Instance is an instance of a process with events E and state S. It is for one goroutine. What React refuses, with an error or a panic, ends
// the test; see React for tests of errors.
type Instance[E, S any] struct {
	tb      testing.TB
	p       process.Process[E, S]
	id      string
	now     time.Time
	state   S
	events  []annals.Payload
	version int
	begun   bool
	ended   bool
	timers  map[string]time.Time
	sent    []process.Command
	awaits  []process.Command // have no answer yet that was asked for
}

// New returns the instance id of p, which has not begun. Its clock is at midnight of 1 January 2000, UTC. A faulty p ends the test.
func New[E, S any](tb testing.TB, p process.Process[E, S], id string) *Instance[E, S] {
	tb.Helper()
	n := &Instance[E, S]{tb: tb, id: id, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), timers: map[string]time.Time{}}
	n.Upgrade(p)
	return n
}

// Upgrade replaces the process by p, as when a program is replaced while the instance waits. The instance keeps the version under which it began, and p reads
// its events.
func (n *Instance[E, S]) Upgrade(p process.Process[E, S]) {
	n.tb.Helper()
	if err := p.Validate(); err != nil {
		n.tb.Fatal(err)
	}
	if n.p = p; p.Events == nil {
		n.p.Events = codec.JSON[E](p.Type)
	}
	if p.States == nil {
		n.p.States = codec.JSON[S](p.Type)
	}
	var zero S
	if n.state = zero; p.Init != nil {
		n.state = p.Init(n.id)
	}
	for _, e := range n.events {
		n.evolve(e)
	}
}

// Event gives the instance an event with the value v, stored now, and returns what it causes.
func (n *Instance[E, S]) Event(v any) process.Step[E] {
	n.tb.Helper()
	return n.take(process.Input{Value: v})
}

// EventOf is Event with what else is known of the event, such as its entity and its time.
func (n *Instance[E, S]) EventOf(e annals.Event, v any) process.Step[E] {
	n.tb.Helper()
	return n.take(process.Input{Value: v, Event: e, Time: e.Time})
}

// Answer gives the instance the answer to a command that it has sent: a reply, or a rejection if err is not nil. A command that was not made by Ask, or
// has its answer already, ends the test; after the end of the instance it does not.
func (n *Instance[E, S]) Answer(c process.Command, reply any, err error) process.Step[E] {
	n.tb.Helper()
	i := slices.IndexFunc(n.awaits, func(sent process.Command) bool { return reflect.DeepEqual(sent, c) })
	switch {
	case i >= 0:
		n.awaits = slices.Delete(n.awaits, i, i+1)
	case !n.ended:
		n.tb.Fatalf("the command %+v was not sent, was not made by Ask, or has its answer", c.Value)
	}
	return n.take(process.Input{Value: process.Answer{Command: c, Reply: reply, Err: err}})
}

// Pass moves the clock on by d. Timers that become due are fired on the way, each at its time. It returns how many were fired. Timers that are set for
// the same time again and again end the test.
func (n *Instance[E, S]) Pass(d time.Duration) (fired int) {
	n.tb.Helper()
	const most = 100_000 // that are fired at the same time
	for end, together := n.now.Add(d), 0; ; fired++ {
		next := n.Timers()
		if len(next) == 0 || next[0].Due.After(end) {
			n.now = end
			return fired
		}
		if together++; next[0].Due.After(n.now) {
			n.now, together = next[0].Due, 0
		}
		if together > most {
			n.tb.Fatalf("timer %q: more than %d timers were fired at %v", next[0].Name, most, n.now)
		}
		delete(n.timers, next[0].Name)
		n.take(process.Input{Value: process.Fired{Name: next[0].Name}})
	}
}

// Commands returns the commands since the last call of Commands, in their order.
func (n *Instance[E, S]) Commands() []process.Command {
	sent := n.sent
	n.sent = nil
	return sent
}

// Timers returns the timers that are set, the next one first.
func (n *Instance[E, S]) Timers() []process.Timer {
	var all []process.Timer
	for name, due := range n.timers {
		all = append(all, process.Timer{Name: name, Due: due})
	}
	slices.SortFunc(all, func(a, b process.Timer) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) })
	return all
}

// State returns the state. The test must not change it.
func (n *Instance[E, S]) State() S { return n.state }

// Ended reports whether the instance has come to its end.
func (n *Instance[E, S]) Ended() bool { return n.ended }

// Now returns the time of the clock.
func (n *Instance[E, S]) Now() time.Time { return n.now }

// React returns what an input would cause, and the error of React, and changes nothing. A zero in.Time is now.
func (n *Instance[E, S]) React(in process.Input) (process.Step[E], error) {
	in.ID, in.Version = n.id, n.p.Version
	if n.begun {
		in.Version = n.version
	}
	if in.Time.IsZero() {
		in.Time = n.now
	}
	n.tb.Helper()
	unchanged := host.Unchanged(n.p.States, n.state)
	s, err := n.p.React(n.state, in)
	if !unchanged() {
		n.tb.Fatalf("React changed the state that it was given: %+v", n.state)
	}
	return s, err
}

// take handles an input as a Runner does.
func (n *Instance[E, S]) take(in process.Input) process.Step[E] {
	n.tb.Helper()
	if n.ended {
		return process.Step[E]{}
	}
	s, err := n.React(in)
	if err != nil {
		n.tb.Fatalf("React to %T: %v", in.Value, err)
	}
	if !n.begun && (s.End || len(s.Events)+len(s.Commands)+len(s.Timers)+len(s.Cancel) > 0) {
		n.begun, n.version = true, n.p.Version
	}
	for _, e := range s.Events {
		n.store(e)
	}
	texts := slices.Clone(s.Cancel)
	for _, c := range s.Commands {
		if _, err := c.Encode(); err != nil {
			n.tb.Fatalf("a command for target %q: %v", c.Target, err)
		}
		texts = append(texts, c.Target, c.Recipient)
		if n.sent = append(n.sent, c); c.Asks {
			n.awaits = append(n.awaits, c)
		}
	}
	for _, name := range s.Cancel {
		delete(n.timers, name)
	}
	for _, t := range s.Timers {
		due := t.Due.Add(time.Microsecond - 1).UTC().Truncate(time.Microsecond) // as it is stored
		if t.Name == "" || len(t.Name) > 1024 || due.Year() < 2 || due.Year() > 9999 {
			n.tb.Fatalf("a timer has a name of %d bytes, and is due in the year %d", len(t.Name), due.Year())
		}
		n.timers[t.Name] = due
		texts = append(texts, t.Name)
	}
	if i := slices.IndexFunc(texts, func(text string) bool { return !utf8.ValidString(text) }); i >= 0 {
		n.tb.Fatalf("%q, a target, a recipient, or a timer, is not UTF-8", texts[i])
	}
	if n.ended = s.End; n.ended {
		n.timers = map[string]time.Time{}
	}
	return s
}

// store stores e, which changes the state.
func (n *Instance[E, S]) store(e E) {
	n.tb.Helper()
	p, err := n.p.Events.Encode(e)
	if err != nil || p.SerializerID == 0 {
		n.tb.Fatalf("encode %T: serializer id %d, error %v", e, p.SerializerID, err)
	}
	n.events = append(n.events, p)
	if !host.Same(n.p.Events, e, n.evolve(p)) {
		n.tb.Fatalf("%T is another one after it was stored and read", e)
	}
}

// evolve reads an event, which changes the state.
func (n *Instance[E, S]) evolve(p annals.Payload) E {
	n.tb.Helper()
	if n.p.Evolve == nil {
		n.tb.Fatal("there are events, and there is no Evolve")
	}
	e, err := n.p.Events.Decode(p)
	if err != nil {
		n.tb.Fatalf("decode %T: %v", e, err)
	}
	n.state = n.p.Evolve(n.state, e)
	return e
}
