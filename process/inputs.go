package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

// Source is a type of entities whose events are inputs, as From makes it.
type Source struct {
	entities string // their type
	store    annals.Store
	faults   error
	follow   func(name string, offsets annals.Store, hand func(ctx context.Context, ts []addressed) error, o projection.Options) (*projection.Runner, error)
	decode   func(e annals.Event) (any, error)
}

// addressed is a turn of an instance.
type addressed struct {
	id string
	turn
}

// From makes the events of src inputs: to returns the id of the instance that gets an event, "" when none does. to must return the same
// whenever it is called for an event. src has a Type, and no States. src.Store need not be the store of the process.
func From[E any](src projection.Source[E], to func(e projection.Envelope[E]) string) Source {
	s := Source{entities: src.Type, store: src.Store}
	switch {
	case src.Store == nil || src.Type == "" || src.Codec == nil || to == nil:
		s.faults = errors.New("From needs a Source with a Store, a Type and a Codec, and a function that returns ids")
	case src.States:
		s.faults = fmt.Errorf("source %q has durable states, of which only the newest can be read", src.Type)
	}
	s.decode = func(e annals.Event) (any, error) { return src.Codec.Decode(e.Payload) }
	s.follow = func(name string, offsets annals.Store, hand func(context.Context, []addressed) error, o projection.Options) (*projection.Runner, error) {
		handle := func(ctx context.Context, es []projection.Envelope[E]) error {
			ts := make([]addressed, 0, len(es))
			for _, e := range es {
				if id := to(e); id != "" {
					ts = append(ts, addressed{id, eventTurn(e.Event, e.Value)})
				}
			}
			return hand(ctx, ts)
		}
		return projection.AtLeastOnceGrouped(name, src, offsets, handle, o)
	}
	return s
}

// eventTurn is the turn of an event.
func eventTurn(e annals.Event, value any) turn {
	in := Input{Time: e.Time, Value: value, Event: e}
	if e.Time.IsZero() {
		in.Time = time.Now().UTC()
	}
	return turn{cause: cause{Entity: e.ID, SeqNr: e.SeqNr, Time: micros(e.Time)}, in: in}
}

// timerTurn is the turn of a timer that has been fired.
func timerTurn(name string, due int64) turn {
	return turn{cause: cause{Timer: name, Due: due}, in: Input{Time: time.Now().UTC(), Value: Fired{name}}}
}

// answerTurn is the turn of the answer to a command.
func answerTurn(command string, a Answer) turn {
	return turn{cause: cause{Answer: command}, in: Input{Time: time.Now().UTC(), Value: a}}
}

// handAll hands inputs to their instances: at the same time, and those of one instance in their order. What it returns holds for all of them.
func (r *Runner[E, S]) handAll(ctx context.Context, ts []addressed) error {
	q := queues[addressed]{}
	for _, t := range ts {
		q.add(t.id, t)
	}
	return q.run(r.o.Parallel, func(_ string, t addressed) error { return r.hand(ctx, t) }, nil)
}

// hand hands an input to its instance. One that the instance cannot handle waits in its journal.
func (r *Runner[E, S]) hand(ctx context.Context, t addressed) error {
	err := r.ask(ctx, t)
	if !poison(err) || t.cause.Answer != "" && t.answer() == nil {
		return err
	}
	r.o.Logger.LogAttrs(ctx, slog.LevelError, "annals: an input cannot be handled, and waits",
		slog.String("process", r.p.Type), slog.String("instance", t.id), slog.String("input", t.cause.String()), slog.Any("error", err))
	t.waits = true
	return r.ask(ctx, t)
}

// ask hands an input to its instance.
func (r *Runner[E, S]) ask(ctx context.Context, t addressed) error {
	done, err := r.instances.Ask(ctx, t.id, t.turn)
	if done {
		r.stored.Add(1)
	}
	return err
}

// resume hands the input that waits since step n of an instance to it.
func (r *Runner[E, S]) resume(ctx context.Context, id string, n annals.SeqNr, s *step) error {
	t := timerTurn(s.Cause.Timer, s.Cause.Due)
	if s.Cause.Entity != "" {
		e := annals.Event{ID: s.Cause.Entity, SeqNr: s.Cause.SeqNr, Payload: s.Waits.Value.payload(), Metadata: s.Waits.Metadata.payload(), Tags: s.Waits.Tags}
		if s.Cause.Time != 0 {
			e.Time = time.UnixMicro(s.Cause.Time).UTC()
		}
		src, ok := r.sources[e.ID.Type()]
		if !ok {
			return fmt.Errorf("an event of %q waits, and there is no such source", e.ID.Type())
		}
		value, err := src.decode(e)
		if err != nil {
			return err
		}
		t = eventTurn(e, value)
	}
	if c := s.Waits.Command; c != nil {
		to, sent, err := r.command(c)
		if err != nil {
			return err
		}
		reply, err := to.replied(s.Waits.Value.payload())
		if err != nil {
			return err
		}
		t = answerTurn(s.Cause.Answer, Answer{Command: sent, Reply: reply})
	}
	t.cause.Waited = n
	return r.ask(ctx, addressed{id, t})
}
