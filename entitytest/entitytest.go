// Package entitytest tests behaviors without a store, in the form Given, When, Then.
//
// Start a scenario with New or NewState. Each event and state is encoded and decoded by the behavior's codec, as if it had been stored and
// read. A Decide that changes the state that it was given fails the test.
package entitytest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Case is a scenario of one event-sourced entity. Its methods return it, so that calls can be chained. The first demand that is not met
// ends the test.
type Case[C, E, S, R any] struct {
	t      testing.TB
	b      behavior.EventSourced[C, E, S, R]
	state  S
	info   behavior.Info // of the last event
	events []E
	reply  R
	err    error
}

// New starts a scenario for the entity named id, which has no events. A faulty b ends the test.
func New[C, E, S, R any](t testing.TB, b behavior.EventSourced[C, E, S, R], id string) *Case[C, E, S, R] {
	t.Helper()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	if b.Events == nil {
		b.Events = codec.JSON[E](b.Type)
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	k := &Case[C, E, S, R]{t: t, b: b}
	if b.Init != nil {
		k.state = b.Init(id)
	}
	return k
}

// StoredAt sets the time at which the events that follow are stored, for EvolveStored: the zero time before the first call of StoredAt.
func (k *Case[C, E, S, R]) StoredAt(t time.Time) *Case[C, E, S, R] {
	k.info.Time = storedTime(t)
	return k
}

// Metadata sets the metadata of the events that follow, for EvolveStored: nil, which is none, before the first call of Metadata. v is
// encoded and decoded by the behavior's Metadata, whose absence ends the test.
func (k *Case[C, E, S, R]) Metadata(v any) *Case[C, E, S, R] {
	k.t.Helper()
	k.info.Metadata = metadata(k.t, k.b.Metadata, v)
	return k
}

// Given adds events to the history of the entity, after those that it has.
func (k *Case[C, E, S, R]) Given(events ...E) *Case[C, E, S, R] {
	k.t.Helper()
	k.evolve(events)
	return k
}

// When has the entity decide c and applies the events that it decides.
func (k *Case[C, E, S, R]) When(c C) *Case[C, E, S, R] {
	k.t.Helper()
	var zero R
	k.reply = zero
	unchanged := watch(k.t, k.b.States, k.state)
	k.events, k.err = k.b.Decide(k.state, c)
	unchanged()
	if k.err != nil {
		k.events = nil // a host does not use them
		return k
	}
	k.evolve(k.events)
	if k.b.Reply != nil {
		k.reply = k.b.Reply(k.state, c, k.events)
	}
	return k
}

// Then demands that the last command was accepted with exactly these events: equal to them, or stored as the same bytes.
func (k *Case[C, E, S, R]) Then(events ...E) *Case[C, E, S, R] {
	k.t.Helper()
	demandAcceptance(k.t, k.err)
	if !slices.EqualFunc(events, k.events, func(a, b E) bool { return same(k.b.Events, a, b) }) {
		k.t.Fatalf("events: got %+v, want %+v", k.events, events)
	}
	return k
}

// Reply demands the reply of the last command.
func (k *Case[C, E, S, R]) Reply(want R) *Case[C, E, S, R] {
	k.t.Helper()
	demandReply(k.t, k.reply, k.err, want)
	return k
}

// Rejected demands that the last command was rejected with an error that Is want.
func (k *Case[C, E, S, R]) Rejected(want error) *Case[C, E, S, R] {
	k.t.Helper()
	demandRejection(k.t, k.err, want)
	return k
}

// State calls check with the state after the last command.
func (k *Case[C, E, S, R]) State(check func(s S)) *Case[C, E, S, R] {
	k.t.Helper()
	check(k.state)
	return k
}

func (k *Case[C, E, S, R]) evolve(events []E) {
	k.t.Helper()
	for _, e := range events {
		if k.b.Tags != nil {
			_ = k.b.Tags(e) // must not panic for any event
		}
		k.info.SeqNr++
		if e = throughCodec(k.t, k.b.Events, e); k.b.EvolveStored != nil {
			k.state = k.b.EvolveStored(k.state, e, k.info)
		} else {
			k.state = k.b.Evolve(k.state, e)
		}
	}
}

// storedTime is t as a store keeps it.
func storedTime(t time.Time) time.Time { return t.UTC().Round(0).Truncate(time.Microsecond) }

// metadata is v as it comes back from a store.
func metadata(t testing.TB, c behavior.Codec[any], v any) any {
	t.Helper()
	if v == nil {
		return nil
	}
	if c == nil {
		t.Fatal("the behavior's Metadata is nil, so it is given no metadata")
	}
	return throughCodec(t, c, v)
}

// throughCodec is v as it comes back from a store.
func throughCodec[T any](t testing.TB, c behavior.Codec[T], v T) T {
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

// watch returns a function that demands that s has not been changed. It demands nothing of a state that cannot be encoded.
func watch[S any](t testing.TB, c behavior.Codec[S], s S) func() {
	before, err := c.Encode(s)
	return func() {
		t.Helper()
		if after, afterErr := c.Encode(s); err == nil && afterErr == nil && !samePayload(before, after) {
			t.Fatalf("Decide changed the state that it was given: %+v", s)
		}
	}
}

// same reports whether a and b are equal, or are stored as the same bytes: values such as protobuf messages hold more than is stored.
func same[T any](c behavior.Codec[T], a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	pa, errA := c.Encode(a)
	pb, errB := c.Encode(b)
	return errA == nil && errB == nil && samePayload(pa, pb)
}

func samePayload(a, b annals.Payload) bool {
	return a.SerializerID == b.SerializerID && a.Manifest == b.Manifest && bytes.Equal(a.Data, b.Data)
}

func demandAcceptance(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("rejected: %v", err)
	}
}

func demandReply[R any](t testing.TB, got R, err error, want R) {
	t.Helper()
	demandAcceptance(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("reply: got %+v, want %+v", got, want)
	}
}

func demandRejection(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || err == nil {
		t.Fatalf("rejection: got %v, want %v", err, want)
	}
}
