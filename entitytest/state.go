package entitytest

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/host"
)

// NewState starts a scenario for the entity named id, whose durable state was never written. A faulty b ends the test.
func NewState[C, S, R any](t testing.TB, b behavior.DurableState[C, S, R], id string) *Case[C, behavior.Effect[S], S, R] {
	t.Helper()
	if err := host.StateFaults(b); err != nil {
		t.Fatal(err)
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	k := &Case[C, behavior.Effect[S], S, R]{t: t, err: errNone, states: b.States, metadata: b.Metadata}
	first := func() (s S) {
		if b.Init != nil {
			s = b.Init(id)
		}
		return s
	}
	k.state = first()
	k.restore = restoring(b.Restore, id)
	read := func(k *Case[C, behavior.Effect[S], S, R], s S) {
		if s = k.restore(s); b.Stored != nil {
			s = b.Stored(s, k.info)
		}
		k.state = s
	}
	k.stored = func(k *Case[C, behavior.Effect[S], S, R], p annals.Payload) error {
		s, err := b.States.Decode(p)
		if err == nil {
			read(k, s)
		}
		return err
	}
	k.decide = func(s S, c C) ([]behavior.Effect[S], error) {
		e, err := b.Decide(s, c)
		if _, saves, deletes := e.Outcome(); !saves && !deletes {
			return nil, err
		}
		return []behavior.Effect[S]{e}, err
	}
	k.apply = func(k *Case[C, behavior.Effect[S], S, R], e behavior.Effect[S]) {
		t.Helper()
		next, saves, deletes := e.Outcome()
		switch {
		case saves:
			if b.Tags != nil {
				_ = b.Tags(next) // must not panic for any state
			}
			k.info.SeqNr++
			read(k, throughCodec(t, b.States, next))
		case deletes:
			k.info.SeqNr++
			k.state = first()
		}
	}
	if b.Reply != nil {
		k.reply = func(s S, c C, _ []behavior.Effect[S]) R { return b.Reply(s, c) }
	}
	k.same = func(x, y behavior.Effect[S]) bool {
		one, saves, deletes := x.Outcome()
		other, alsoSaves, alsoDeletes := y.Outcome()
		return saves == alsoSaves && deletes == alsoDeletes && (!saves || host.Same(b.States, one, other))
	}
	k.show = func(e behavior.Effect[S]) any {
		s, saves, deletes := e.Outcome()
		switch {
		case saves:
			return fmt.Sprintf("Save(%+v)", s)
		case deletes:
			return "Delete()"
		}
		return "nothing"
	}
	return k
}
