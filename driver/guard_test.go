package driver_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/memstore"
)

// guarding is a Driver that others write beside, in a transaction.
type guarding struct {
	*memstore.Store
	able
	read    []driver.Seen
	written []driver.Seen
	late    func() // is run after LastSeqNr
	sent    annals.WriteID
}

// able has the abilities of memstore that the tests use.
type able interface {
	ability.Recoverer
	ability.Skipper
	ability.Forgetter
}

func newGuarding() *guarding {
	s := memstore.New()
	return &guarding{Store: s, able: s.Unwrap().(able)}
}

func (*guarding) Fault(err error) error { return err }

func (g *guarding) guard(_ context.Context, read, written []driver.Seen) error {
	g.read, g.written = read, written
	return &annals.Error{Kind: annals.ErrConflict}
}

func (g *guarding) Journal() annals.Journal { return lateJournal{g.Store.Journal(), g} }

type lateJournal struct {
	annals.Journal
	g *guarding
}

func (j lateJournal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	n, err := j.Journal.LastSeqNr(ctx, id)
	if j.g.late != nil {
		j.g.late()
	}
	return n, err
}

// What a transaction has read to the end, and not written, is passed to Guard.
func TestGuard(t *testing.T) {
	t.Parallel()
	type use = func(ctx context.Context, g *guarding, in *driver.Store) error
	last := func(ctx context.Context, _ *guarding, in *driver.Store) error {
		_, err := in.Journal().LastSeqNr(ctx, "T|1")
		return err
	}
	get := func(ctx context.Context, _ *guarding, in *driver.Store) error {
		_, _, err := in.States().Get(ctx, "T|1")
		return err
	}
	replay := func(from, to annals.SeqNr, most int) use {
		return func(ctx context.Context, _ *guarding, in *driver.Store) error {
			return drain(in.Journal().Replay(ctx, "T|1", from, to), most)
		}
	}
	recovery := func(fails error) use {
		return func(ctx context.Context, _ *guarding, in *driver.Store) error {
			_, err := in.Unwrap().(ability.Recoverer).Recover(ctx, "T|1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return fails })
			if errors.Is(err, fails) {
				return nil
			}
			return err
		}
	}
	add := func(after annals.SeqNr) use {
		return func(ctx context.Context, _ *guarding, in *driver.Store) error {
			_, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", After: after, Events: events(1)})
			if errors.Is(err, annals.ErrConflict) {
				return nil
			}
			return err
		}
	}
	// again sends the commit of the events 1 … 3 once more: the store recognises it.
	again := func(ctx context.Context, g *guarding, in *driver.Store) error {
		r, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", After: 3, Events: events(1), WriteID: g.sent})
		if err == nil && !r.Repeated {
			return errors.New("the store did not recognise the commit")
		}
		return err
	}
	sent := func(ctx context.Context, g *guarding, _ *driver.Store) error {
		g.sent = annals.NewWriteID()
		_, err := g.Store.Journal().Append(ctx, annals.Commit{ID: "T|1", After: 3, Events: events(1), WriteID: g.sent})
		return err
	}
	beside := func(ctx context.Context, g *guarding, _ *driver.Store) error {
		n, err := g.Store.Journal().LastSeqNr(ctx, "T|1")
		if err == nil {
			_, err = g.Store.Journal().Append(ctx, annals.Commit{ID: "T|1", After: n, Events: events(1)})
		}
		return err
	}
	putBeside := func(ctx context.Context, g *guarding, _ *driver.Store) error {
		_, err := g.Store.States().Put(ctx, annals.StateWrite{ID: "T|1", After: 3, Payload: annals.Payload{SerializerID: 20}})
		return err
	}
	put := func(after annals.SeqNr, event bool) use {
		return func(ctx context.Context, _ *guarding, in *driver.Store) error {
			w := annals.StateWrite{ID: "T|1", After: after, Payload: annals.Payload{SerializerID: 20}}
			if event {
				w.Event = &events(1)[0]
			}
			_, err := in.States().Put(ctx, w)
			return err
		}
	}
	forget := func(ctx context.Context, g *guarding, in *driver.Store) error {
		_, err := g.Store.States().Delete(ctx, annals.StateWrite{ID: "T|1", After: 3})
		if err := errors.Join(err, g.Store.Journal().DeleteTo(ctx, "T|1", 3)); err != nil {
			return err
		}
		_, err = in.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: "T|1"})
		return err
	}
	forgetNothing := func(ctx context.Context, _ *guarding, in *driver.Store) error {
		_, err := in.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: "T|1"})
		if errors.Is(err, annals.ErrConflict) {
			return nil
		}
		return err
	}
	skipped := func(ctx context.Context, g *guarding, _ *driver.Store) error {
		return g.Store.Unwrap().(ability.Skipper).SkipTo(ctx, "T|1", 3, 9)
	}
	skip := func(ctx context.Context, _ *guarding, in *driver.Store) error {
		return in.Unwrap().(ability.Skipper).SkipTo(ctx, "T|1", 3, 9)
	}

	const stale = "stale" // Guard is not called
	const none, number, revision = "[]", "[{T|1 false 3}]", "[{T|1 true 3}]"
	for name, c := range map[string]struct {
		uses    []use
		read    string
		written bool
	}{
		"a number":                               {[]use{last}, number, false},
		"a recovery":                             {[]use{recovery(nil)}, number, false},
		"a recovery that is left":                {[]use{recovery(errors.New("left"))}, none, false},
		"a replay":                               {[]use{replay(1, annals.MaxSeqNr, 9)}, number, false},
		"a replay of the end":                    {[]use{replay(3, 3, 9)}, number, false},
		"a replay of nothing":                    {[]use{replay(4, annals.MaxSeqNr, 9)}, number, false},
		"a replay to another number":             {[]use{replay(1, 2, 9)}, none, false},
		"a replay that is left":                  {[]use{replay(1, annals.MaxSeqNr, 2)}, none, false},
		"a state":                                {[]use{get}, revision, false},
		"both":                                   {[]use{get, last}, "[{T|1 false 3} {T|1 true 3}]", false},
		"a number, then another":                 {[]use{last, beside, last}, number, false},
		"a number, then a write":                 {[]use{last, add(3)}, none, true},
		"a write, then a number":                 {[]use{add(3), last}, none, true},
		"a write that is refused":                {[]use{last, beside, add(3)}, none, false},
		"a number after a refusal":               {[]use{last, beside, add(3), last}, "[{T|1 false 4}]", false},
		"a number, then a skip":                  {[]use{last, skip}, none, true},
		"a state, then a write":                  {[]use{get, put(3, false)}, none, true},
		"a number, then a state":                 {[]use{last, put(3, false)}, number, true},
		"a number, then a state's event":         {[]use{last, get, put(3, true)}, none, true},
		"a number, then a write after another":   {[]use{last, beside, add(4)}, stale, true},
		"two numbers, then a write":              {[]use{last, beside, last, add(4)}, stale, true},
		"a number twice, then a refusal":         {[]use{last, last, beside, add(3)}, number, false},
		"a number twice, a refusal and a write":  {[]use{last, last, beside, add(3), last, add(4)}, stale, true},
		"a state, then a write after another":    {[]use{get, putBeside, put(4, false)}, stale, true},
		"a number, then a write that was stored": {[]use{sent, last, again}, "[{T|1 false 4}]", false},
		"a write that was stored, then a number": {[]use{sent, again, last}, "[{T|1 false 4}]", false},
		"a number, then a skip that was done":    {[]use{skipped, last, skip}, "[{T|1 false 9}]", false},
		"what is forgotten":                      {[]use{last, get, forget}, none, true},
		"what is not forgotten":                  {[]use{last, forgetNothing}, number, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarding()
			outer := driver.New(g, driver.Options{})
			for n := range annals.SeqNr(3) {
				_, err := outer.States().Put(t.Context(), annals.StateWrite{ID: "T|1", After: n, Payload: annals.Payload{SerializerID: 20}, Event: &events(1)[0]})
				if err != nil {
					t.Fatal(err)
				}
			}
			err := driver.InTx(t.Context(), outer, driver.Transaction{Driver: g, Guard: g.guard}, func(_ context.Context, in *driver.Store) error {
				for i, use := range c.uses {
					if err := use(t.Context(), g, in); err != nil {
						t.Fatalf("use %d: %v", i, err)
					}
				}
				return nil
			})
			got := fmt.Sprint(g.read)
			if err != nil && g.read == nil {
				got = stale
			}
			if got != c.read || errors.Is(err, annals.ErrConflict) != (c.read != none) {
				t.Errorf("read %s, %v, want %s", got, err, c.read)
			}
			if written := len(g.written) > 0; g.read != nil && written != c.written {
				t.Errorf("written: %v", g.written)
			}
		})
	}
}

// An event that is stored while a replay begins is seen, or makes the number another one.
func TestGuardOfAReplayBesideAWriter(t *testing.T) {
	t.Parallel()
	g := newGuarding()
	g.late = func() {
		_, err := g.Store.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: events(1)})
		if err != nil {
			t.Error(err)
		}
	}
	outer := driver.New(g, driver.Options{})
	err := driver.InTx(t.Context(), outer, driver.Transaction{Driver: g, Guard: g.guard}, func(_ context.Context, in *driver.Store) error {
		return drain(in.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr), 9)
	})
	if !errors.Is(err, annals.ErrConflict) || fmt.Sprint(g.read) != "[{T|1 false 1}]" {
		t.Errorf("read %v, %v", g.read, err)
	}
}

// events are n events.
func events(n int) []annals.NewEvent {
	es := make([]annals.NewEvent, n)
	for i := range es {
		es[i].SerializerID = 20
	}
	return es
}

// drain reads at most n events.
func drain(es iter.Seq2[annals.Event, error], n int) error {
	for _, err := range es {
		if err != nil {
			return err
		}
		if n--; n == 0 {
			return nil
		}
	}
	return nil
}
