// Package entitytest tests behaviors without a store, in the form Given, When, Then.
//
// Start a scenario with New or NewState. Each event, and each durable state, is encoded and decoded by the behavior's codec, as if it had been stored and
// read. A Decide that changes the state that it was given fails the test.
package entitytest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/host"
)

// Case is a scenario of one entity: commands C, state S, replies R. E is an event, or an effect on a durable state: behavior.Effect[S]. Its
// methods return it, so that calls can be chained. The first demand that is not met ends the test; without a When before it none is met but that of Stored.
type Case[C, E, S, R any] struct {
	t        testing.TB
	states   codec.Codec[S]
	metadata codec.Codec[any]
	decide   func(s S, c C) ([]E, error)
	apply    func(k *Case[C, E, S, R], e E)                    // stores e
	stored   func(k *Case[C, E, S, R], p annals.Payload) error // applies what a store has
	restore  func(s S) S                                       // a state that was decoded
	reply    func(s S, c C, done []E) R                        // nil: the zero R
	same     func(a, b E) bool
	show     func(e E) any // for messages

	state  S
	info   behavior.Info // of the last event or revision
	done   []E
	answer R
	err    error // errNone before the first When
}

var errNone = errors.New("there was no When")

// New starts a scenario for the entity named id, which has no events. A faulty b ends the test.
func New[C, E, S, R any](t testing.TB, b behavior.EventSourced[C, E, S, R], id string) *Case[C, E, S, R] {
	t.Helper()
	if err := host.Faults(b); err != nil {
		t.Fatal(err)
	}
	if b.Events == nil {
		b.Events = codec.JSON[E](b.Type)
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	k := &Case[C, E, S, R]{t: t, err: errNone, states: b.States, metadata: b.Metadata, decide: b.Decide, reply: b.Reply, show: func(e E) any { return e }}
	if b.Init != nil {
		k.state = b.Init(id)
	}
	k.restore = restoring(b.Restore, id)
	evolve := func(k *Case[C, E, S, R], e E) {
		if b.EvolveStored != nil {
			k.state = b.EvolveStored(k.state, e, k.info)
		} else {
			k.state = b.Evolve(k.state, e)
		}
	}
	k.stored = func(k *Case[C, E, S, R], p annals.Payload) error {
		e, err := b.Events.Decode(p)
		if err == nil {
			evolve(k, e)
		}
		return err
	}
	k.same = func(x, y E) bool { return host.Same(b.Events, x, y) }
	k.apply = func(k *Case[C, E, S, R], e E) {
		t.Helper()
		if b.Tags != nil {
			_ = b.Tags(e) // must not panic for any event
		}
		k.info.SeqNr++
		evolve(k, throughCodec(t, b.Events, e))
	}
	return k
}

// restoring is what a host does with a state that was decoded.
func restoring[S any](restore func(id string, s S) S, id string) func(S) S {
	return func(s S) S {
		if restore != nil {
			s = restore(id, s)
		}
		return s
	}
}

// StoredAt sets the time at which what follows is stored, for EvolveStored and Stored: the zero time before the first call of StoredAt.
func (k *Case[C, E, S, R]) StoredAt(t time.Time) *Case[C, E, S, R] {
	k.info.Time = t.UTC().Round(0).Truncate(time.Microsecond) // as a store keeps it
	return k
}

// Metadata sets the metadata of what follows, for EvolveStored and Stored: nil, which is none, before the first call of Metadata. v is
// encoded and decoded by the behavior's Metadata, whose absence ends the test.
func (k *Case[C, E, S, R]) Metadata(v any) *Case[C, E, S, R] {
	k.t.Helper()
	switch {
	case v == nil:
	case k.metadata == nil:
		k.t.Fatal("the behavior's Metadata is nil, so it is given no metadata")
	default:
		v = throughCodec(k.t, k.metadata, v)
	}
	k.info.Metadata = v
	return k
}

// Given adds events, or effects, to the history of the entity, after those that it has.
func (k *Case[C, E, S, R]) Given(done ...E) *Case[C, E, S, R] {
	k.t.Helper()
	for _, e := range done {
		k.apply(k, e)
	}
	return k
}

// When has the entity decide c and applies what it decides.
func (k *Case[C, E, S, R]) When(c C) *Case[C, E, S, R] {
	k.t.Helper()
	var zero R
	k.answer = zero
	unchanged := host.Unchanged(k.states, k.state)
	k.done, k.err = k.decide(k.state, c)
	if !unchanged() {
		k.t.Fatalf("Decide changed the state that it was given: %+v", k.state)
	}
	if k.err != nil {
		k.done = nil // a host does not use them
		return k
	}
	k.Given(k.done...)
	if k.reply != nil {
		k.answer = k.reply(k.state, c, k.done)
	}
	return k
}

// Then demands that the last command was accepted with exactly these events: equal to them, or stored as the same bytes. For a durable state
// it is one effect, and Then() when the command does not change the state.
func (k *Case[C, E, S, R]) Then(done ...E) *Case[C, E, S, R] {
	k.t.Helper()
	k.accepted()
	if !slices.EqualFunc(done, k.done, k.same) {
		k.t.Fatalf("decided: got %+v, want %+v", k.shown(k.done), k.shown(done))
	}
	return k
}

// Reply demands the reply of the last command.
func (k *Case[C, E, S, R]) Reply(want R) *Case[C, E, S, R] {
	k.t.Helper()
	k.accepted()
	if !reflect.DeepEqual(k.answer, want) {
		k.t.Fatalf("reply: got %+v, want %+v", k.answer, want)
	}
	return k
}

// Rejected demands that the last command was rejected with an error that Is want.
func (k *Case[C, E, S, R]) Rejected(want error) *Case[C, E, S, R] {
	k.t.Helper()
	if !errors.Is(k.err, want) || k.err == nil {
		k.t.Fatalf("rejection: got %v, want %v", k.err, want)
	}
	return k
}

// State calls check with the state after the last command.
func (k *Case[C, E, S, R]) State(check func(s S)) *Case[C, E, S, R] {
	k.t.Helper()
	check(k.state)
	return k
}

func (k *Case[C, E, S, R]) accepted() {
	k.t.Helper()
	if k.err != nil {
		k.t.Fatalf("rejected: %v", k.err)
	}
}

func (k *Case[C, E, S, R]) shown(done []E) (all []any) {
	for _, e := range done {
		all = append(all, k.show(e))
	}
	return all
}

// throughCodec is v as it comes back from a store.
func throughCodec[T any](t testing.TB, c codec.Codec[T], v T) T {
	t.Helper()
	p, err := c.Encode(v)
	if err != nil {
		t.Fatalf("encode %+v: %v", v, err)
	}
	if p.SerializerID == 0 {
		t.Fatalf("encode %+v: the payload has no serializer id", v)
	}
	back, err := c.Decode(p)
	if err != nil {
		t.Fatalf("decode %+v: %v", v, err)
	}
	return back
}
