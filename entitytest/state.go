package entitytest

import (
	"testing"
	"time"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// StateCase is a scenario of one durable-state entity. Its methods return it, so that calls can be chained. The first demand that is not
// met ends the test.
type StateCase[C, S, R any] struct {
	t       testing.TB
	b       behavior.DurableState[C, S, R]
	id      string
	state   S
	info    behavior.Info // of the last revision
	saved   bool
	deleted bool
	reply   R
	err     error
}

// NewState starts a scenario for the entity named id, which was never written. A faulty b ends the test.
func NewState[C, S, R any](t testing.TB, b behavior.DurableState[C, S, R], id string) *StateCase[C, S, R] {
	t.Helper()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	k := &StateCase[C, S, R]{t: t, b: b, id: id}
	k.state = k.first()
	return k
}

// StoredAt sets the time at which the states that follow are stored, for Stored: the zero time before the first call of StoredAt.
func (k *StateCase[C, S, R]) StoredAt(t time.Time) *StateCase[C, S, R] {
	k.info.Time = storedTime(t)
	return k
}

// Metadata sets the metadata of the states that follow, for Stored: nil, which is none, before the first call of Metadata. v is encoded
// and decoded by the behavior's Metadata, whose absence ends the test.
func (k *StateCase[C, S, R]) Metadata(v any) *StateCase[C, S, R] {
	k.t.Helper()
	k.info.Metadata = metadata(k.t, k.b.Metadata, v)
	return k
}

// Given makes s the stored state, as the next revision.
func (k *StateCase[C, S, R]) Given(s S) *StateCase[C, S, R] {
	k.t.Helper()
	k.state = k.stored(s)
	return k
}

// When has the entity decide c and stores what it decides.
func (k *StateCase[C, S, R]) When(c C) *StateCase[C, S, R] {
	k.t.Helper()
	var zero R
	k.saved, k.deleted, k.reply = false, false, zero
	unchanged := watch(k.t, k.b.States, k.state)
	effect, err := k.b.Decide(k.state, c)
	unchanged()
	if k.err = err; err != nil {
		return k
	}
	var next S
	next, k.saved, k.deleted = effect.Outcome()
	switch {
	case k.saved:
		if k.b.Tags != nil {
			_ = k.b.Tags(next) // must not panic for any state
		}
		k.state = k.stored(next)
	case k.deleted:
		k.info.SeqNr++
		k.state = k.first()
	}
	if k.b.Reply != nil {
		k.reply = k.b.Reply(k.state, c)
	}
	return k
}

// Then demands that the last command was accepted and saved exactly s: equal to it, or stored as the same bytes.
func (k *StateCase[C, S, R]) Then(s S) *StateCase[C, S, R] {
	k.t.Helper()
	demandAcceptance(k.t, k.err)
	if !k.saved {
		k.t.Fatalf("nothing was saved, want %+v", s)
	}
	if !same(k.b.States, k.state, s) {
		k.t.Fatalf("saved: got %+v, want %+v", k.state, s)
	}
	return k
}

// ThenDeleted demands that the last command was accepted and deleted the state.
func (k *StateCase[C, S, R]) ThenDeleted() *StateCase[C, S, R] {
	k.t.Helper()
	demandAcceptance(k.t, k.err)
	if !k.deleted {
		k.t.Fatalf("the state was not deleted: %+v", k.state)
	}
	return k
}

// ThenNothing demands that the last command was accepted and neither saved nor deleted the state.
func (k *StateCase[C, S, R]) ThenNothing() *StateCase[C, S, R] {
	k.t.Helper()
	demandAcceptance(k.t, k.err)
	if k.saved || k.deleted {
		k.t.Fatalf("the state was saved or deleted: %+v", k.state)
	}
	return k
}

// Reply demands the reply of the last command.
func (k *StateCase[C, S, R]) Reply(want R) *StateCase[C, S, R] {
	k.t.Helper()
	demandReply(k.t, k.reply, k.err, want)
	return k
}

// Rejected demands that the last command was rejected with an error that Is want.
func (k *StateCase[C, S, R]) Rejected(want error) *StateCase[C, S, R] {
	k.t.Helper()
	demandRejection(k.t, k.err, want)
	return k
}

// State calls check with the state after the last command.
func (k *StateCase[C, S, R]) State(check func(s S)) *StateCase[C, S, R] {
	k.t.Helper()
	check(k.state)
	return k
}

// stored is s as it comes back from a store.
func (k *StateCase[C, S, R]) stored(s S) S {
	k.t.Helper()
	s = throughCodec(k.t, k.b.States, s)
	if k.b.Restore != nil {
		s = k.b.Restore(k.id, s)
	}
	if k.info.SeqNr++; k.b.Stored != nil {
		s = k.b.Stored(s, k.info)
	}
	return s
}

func (k *StateCase[C, S, R]) first() (s S) {
	if k.b.Init != nil {
		s = k.b.Init(k.id)
	}
	return s
}
