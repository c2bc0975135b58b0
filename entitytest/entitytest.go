// Package entitytest tests behaviors as Given/When/Then, without a store.
//
// Every event and state that passes through a scenario also passes through the behavior's codec, as it would on its way
// to a store and back, and what Decide must not do, change the state it was given, fails the test.
package entitytest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Case is a scenario of one event-sourced entity. Its methods return it, so that a scenario reads as one sentence; the
// first demand that is not met ends the test.
type Case[C, E, S, R any] struct {
	t      testing.TB
	b      behavior.EventSourced[C, E, S, R]
	state  S
	events []E
	reply  R
	err    error
}

// New starts a scenario for the entity named id. A faulty b ends the test.
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

// Given lets events have happened.
func (k *Case[C, E, S, R]) Given(events ...E) *Case[C, E, S, R] {
	k.t.Helper()
	k.evolve(events)
	return k
}

// When lets the entity decide c. What it decides happens.
func (k *Case[C, E, S, R]) When(c C) *Case[C, E, S, R] {
	k.t.Helper()
	var zero R
	k.reply = zero
	unchanged := watch(k.t, k.b.States, k.state)
	k.events, k.err = k.b.Decide(k.state, c)
	unchanged()
	if k.err != nil {
		k.events = nil // a host throws them away
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
	if k.err != nil {
		k.t.Fatalf("rejected: %v", k.err)
	}
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

// State hands the state behind the last command to check.
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
		k.state = k.b.Evolve(k.state, throughCodec(k.t, k.b.Events, e))
	}
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

// watch returns a function that demands that s has not been changed. A state that cannot be encoded is not watched.
func watch[S any](t testing.TB, c behavior.Codec[S], s S) func() {
	before, err := c.Encode(s)
	return func() {
		t.Helper()
		if after, afterErr := c.Encode(s); err == nil && afterErr == nil && !samePayload(before, after) {
			t.Fatalf("Decide changed the state that it was given: %+v", s)
		}
	}
}

// same compares values, and those that hold more than is stored, such as protobuf messages, by what is stored.
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

func demandReply[R any](t testing.TB, got R, err error, want R) {
	t.Helper()
	if err != nil {
		t.Fatalf("rejected: %v", err)
	}
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
