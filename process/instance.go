package process

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/valid"
)

// instance is the state of an instance as its events make it. What is not S is what makes inputs take effect once.
type instance[S any] struct {
	id    string
	state S
	known
}

// known is the part of an instance that is not of the process.
type known struct {
	Begun   bool                          `json:"begun"`
	Version int                           `json:"version"`
	Handled map[annals.PersistenceID]mark `json:"handled,omitempty"` // the events of each entity
	Awaits  map[string]bool               `json:"awaits,omitempty"`  // commands whose answer is an input, by cause.Answer
	Timers  map[string]int64              `json:"timers,omitempty"`  // when they are due
	Waits   annals.SeqNr                  `json:"waits,omitempty"`   // the newest step with which an input began to wait
	Resumed annals.SeqNr                  `json:"resumed,omitempty"` // the newest such step whose input was handled; earlier ones were handled or left out
	Ended   bool                          `json:"ended,omitempty"`
	Sent    []place                       `json:"sent,omitempty"` // commands that were executed, of steps that had not been carried out
}

// mark says which events of an entity were handled: those up to SeqNr. One number suffices, because a projection hands over the events of an
// entity in the order of their numbers, also those that become visible too late. An event with such a number is new when its time is later
// than that of all of them: its entity was forgotten, and began again.
type mark struct {
	SeqNr annals.SeqNr `json:"seqNr"`
	Time  int64        `json:"time"`
}

// turn is the command of an instance: handle an input.
type turn struct {
	cause cause
	in    Input
	waits bool // the input cannot be handled now: it waits

	answer func() *waiting // the stored form of an Answer, nil when it has none

	// No input, but commands that were executed although others have failed. What is noted of steps before since is of no use any more.
	sent  []place
	since annals.SeqNr
}

// unfit is the error of React.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

// poison reports whether err, of a turn, is due to the input or to React, and not to the store.
func poison(err error) bool {
	return errors.As(err, new(unfit)) || errors.Is(err, annals.ErrPanic) || errors.Is(err, annals.ErrInvalid) || errors.Is(err, annals.ErrTooLarge)
}

// behavior runs p as an event-sourced entity. The reply is whether the input was new.
func (p Process[E, S]) behavior() behavior.EventSourced[turn, record[E, S], instance[S], bool] {
	if p.Events == nil {
		p.Events = codec.JSON[E](p.Type)
	}
	if p.States == nil {
		p.States = codec.JSON[S](p.Type)
	}
	return behavior.EventSourced[turn, record[E, S], instance[S], bool]{
		Type: p.Type,
		Init: func(id string) instance[S] {
			n := instance[S]{id: id}
			if p.Init != nil {
				n.state = p.Init(id)
			}
			return n
		},
		Decide:        p.decide,
		EvolveStored:  p.evolve,
		Reply:         func(_ instance[S], _ turn, done []record[E, S]) bool { return len(done) > 0 },
		Restore:       func(id string, n instance[S]) instance[S] { n.id = id; return n },
		Events:        records[E, S]{p.Events},
		States:        instances[S]{p.States},
		SnapshotEvery: p.SnapshotEvery,
	}
}

func (p Process[E, S]) decide(n instance[S], t turn) ([]record[E, S], error) {
	s := step{Version: p.Version, Cause: t.cause}
	if n.Begun {
		s.Version = n.Version
	}
	waited := t.cause.Waited > 0
	switch {
	case len(t.sent) > 0:
		if s.Sent = n.noted(t); !n.Begun || s.Sent == nil {
			return nil, nil
		}
		return []record[E, S]{{step: &s}}, nil
	case n.Ended, n.handled(t.cause):
		return nil, nil
	case t.waits, n.Waits > n.Resumed && !waited && t.cause.Answer == "":
		s.Waits = &waiting{}
		if t.answer != nil {
			s.Waits = t.answer()
		}
		if e := t.in.Event; e.ID != "" {
			value := newPayload(e.Payload)
			s.Waits.Value, s.Waits.Tags = &value, e.Tags
			if e.Metadata.SerializerID != 0 {
				metadata := newPayload(e.Metadata)
				s.Waits.Metadata = &metadata
			}
		}
		return []record[E, S]{{step: &s}}, nil
	case waited && t.cause.Timer != "" && !n.isDue(t.cause): // cancelled or set again while it waited
		return []record[E, S]{{step: &s}}, nil
	}
	in := t.in
	in.ID, in.Version = n.id, s.Version
	out, err := p.React(n.state, in)
	if err != nil {
		return nil, unfit{err}
	}
	if err := s.add(out.Commands, out.Timers, out.Cancel); err != nil {
		return nil, err
	}
	if s.End = out.End; len(out.Events) > 0 && p.Evolve == nil {
		return nil, unfit{errors.New("React has returned events, and there is no Evolve")}
	}
	// An event without an effect is not stored. When it is handed over again, it is as if it had come only then.
	if t.cause.Entity != "" && !waited && len(out.Events)+len(s.Commands)+len(s.Timers)+len(s.Cancel) == 0 && !s.End {
		return nil, nil
	}
	// Evolve may fail. So it is called before the write, on the state of this turn, which was read for it and is not used when the write fails.
	done := make([]record[E, S], 1, 1+len(out.Events))
	done[0].step = &s
	for _, e := range out.Events {
		n.state = p.Evolve(n.state, e)
		after := n.state
		done = append(done, record[E, S]{event: e, after: &after})
	}
	return done, nil
}

// add adds what React returned.
func (s *step) add(commands []Command, timers []Timer, cancel []string) error {
	for _, c := range commands {
		p, err := c.Encode()
		if err != nil {
			return unfit{fmt.Errorf("a command for target %q: %w", c.Target, err)}
		}
		s.Commands = append(s.Commands, command{c.Target, c.Recipient, newPayload(p), c.Asks})
	}
	for _, t := range timers {
		year := t.Due.Add(time.Microsecond - 1).UTC().Year() // of what is stored
		if t.Name == "" || len(t.Name) > calendar.MaxName || year < 2 || year > 9999 {
			return unfit{fmt.Errorf("a timer has a name of %d bytes, and is due in the year %d", len(t.Name), year)}
		}
		s.Timers = append(s.Timers, timer{t.Name, micros(t.Due)})
	}
	s.Cancel = cancel
	return nil
}

func (p Process[E, S]) evolve(n instance[S], r record[E, S], info behavior.Info) instance[S] {
	s := r.step
	switch {
	case r.after != nil:
		n.state = *r.after
		return n
	case s == nil:
		n.state = p.Evolve(n.state, r.event)
		return n
	}
	n.Begun, n.Version = true, s.Version
	if s.Sent != nil {
		n.Sent = s.Sent
		return n
	}
	if c := s.Cause; c.Entity != "" && c.Waited == 0 {
		m := mark{c.SeqNr, c.Time}
		if before := n.Handled[c.Entity]; c.SeqNr > before.SeqNr {
			m.Time = max(m.Time, before.Time)
		}
		put(&n.Handled, c.Entity, m)
	}
	delete(n.Awaits, s.Cause.Answer)
	if s.Waits != nil {
		n.Waits = info.SeqNr
		return n
	}
	n.Resumed = max(n.Resumed, s.Cause.Waited)
	if n.isDue(s.Cause) {
		delete(n.Timers, s.Cause.Timer)
	}
	for _, name := range s.Cancel {
		delete(n.Timers, name)
	}
	for _, t := range s.Timers {
		put(&n.Timers, t.Name, t.Due)
	}
	for i, c := range s.Commands {
		if c.Asks {
			put(&n.Awaits, number(info.SeqNr, i), true)
		}
	}
	if n.Ended = s.End; n.Ended {
		n.Handled, n.Awaits, n.Timers = nil, nil, nil
	}
	return n
}

// handled reports whether c, which is not the cause of an instance that has ended, was handled before, or has no effect any more.
func (n *known) handled(c cause) bool {
	switch {
	case c.Waited > 0:
		return c.Waited <= n.Resumed
	case c.Answer != "":
		return !n.Awaits[c.Answer]
	case c.Timer != "":
		return !n.isDue(c)
	}
	m, ok := n.Handled[c.Entity]
	return ok && c.SeqNr <= m.SeqNr && c.Time <= m.Time
}

// isDue reports whether c is a timer that is set and due. One that was set again to a later time is fired again then.
func (n *known) isDue(c cause) bool {
	due, set := n.Timers[c.Timer]
	return set && due <= c.Due
}

// noted returns n.Sent with what t adds to it; nil when it adds nothing.
func (n *known) noted(t turn) []place {
	all, added := slices.DeleteFunc(slices.Clone(n.Sent), func(p place) bool { return p.Step < t.since }), false
	for _, p := range t.sent {
		if !slices.Contains(all, p) {
			all, added = append(all, p), true
		}
	}
	if !added {
		return nil
	}
	return all
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// instances is the codec of snapshots.
type instances[S any] struct{ states codec.Codec[S] }

// snapshot is the stored form of an instance.
type snapshot struct {
	known
	State payload `json:"state"`
}

var snapshots = codec.JSON[snapshot]("annals.process.instance")

func (c instances[S]) Encode(n instance[S]) (annals.Payload, error) {
	p, err := c.states.Encode(n.state)
	if err != nil {
		return p, err
	}
	return snapshots.Encode(snapshot{n.known, newPayload(p)})
}

func (c instances[S]) Decode(p annals.Payload) (n instance[S], err error) {
	s, err := snapshots.Decode(p)
	if err != nil {
		return n, err
	}
	n.known = s.known
	n.state, err = c.states.Decode(s.State.payload())
	return n, err
}

// Validate is that of the codec of states.
func (c instances[S]) Validate() error { return valid.Codec(c.states) }

// Instance is what an instance has stored.
type Instance[S any] struct {
	State   S
	Version int          // of the process, under which it began
	SeqNr   annals.SeqNr // of its newest event; 0: it has not begun
	Timers  []Timer      // that are set, by name
	Awaits  int          // how many commands have no answer yet that was asked for
	Waits   bool         // an input waits that React could not handle, or was left out by Discard and is the newest one that has waited
	Ended   bool
}

func (n *instance[S]) public(at annals.SeqNr) Instance[S] {
	public := Instance[S]{State: n.state, Version: n.Version, SeqNr: at, Awaits: len(n.Awaits), Waits: n.Waits > n.Resumed && !n.Ended, Ended: n.Ended}
	for name, due := range n.Timers {
		public.Timers = append(public.Timers, Timer{name, time.UnixMicro(due).UTC()})
	}
	slices.SortFunc(public.Timers, func(a, b Timer) int { return cmp.Compare(a.Name, b.Name) })
	return public
}

func (c cause) String() string {
	switch {
	case c.Timer != "":
		return "timer " + c.Timer
	case c.Answer != "":
		return "answer to " + c.Answer
	}
	return fmt.Sprintf("event %d of %s", c.SeqNr, strings.ToValidUTF8(string(c.Entity), "?"))
}
