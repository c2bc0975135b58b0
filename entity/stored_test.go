package entity_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
)

// times is an account whose state is the balance and the times of its events, in microseconds since 1970.
type times struct {
	Balance int
	At      []int64
}

// timed is account with a state that depends on when its events are stored. A reply is the balance.
var timed = behavior.EventSourced[int, int, times, int]{
	Type:   "Account",
	Decide: func(s times, amount int) ([]int, error) { return account.Decide(s.Balance, amount) },
	EvolveStored: func(s times, amount int, i behavior.Info) times {
		return times{s.Balance + amount, append(slices.Clip(s.At), i.Time.UnixMicro())}
	},
	Reply:  func(s times, _ int, _ []int) int { return s.Balance },
	Events: codec.JSON[int]("moved"),
}

// timedState is timed as a durable state.
var timedState = behavior.DurableState[int, times, int]{
	Type: "Account",
	Decide: func(s times, amount int) (none behavior.Effect[times], _ error) {
		if _, err := account.Decide(s.Balance, amount); err != nil || amount == 0 {
			return none, err
		}
		return behavior.Save(times{Balance: s.Balance + amount}), nil
	},
	Stored: func(s times, i behavior.Info) times { s.At = []int64{i.Time.UnixMicro()}; return s },
	Reply:  func(s times, _ int) int { return s.Balance },
}

// eachTimed runs test for both strategies; spring is called whenever the state is told of a stored event or state.
func eachTimed(t *testing.T, test func(t *testing.T, start func(s annals.Store, o entity.Options, spring func()) (asks, error))) {
	t.Parallel()
	t.Run("sourced", func(t *testing.T) {
		t.Parallel()
		test(t, func(s annals.Store, o entity.Options, spring func()) (asks, error) {
			b := timed
			b.EvolveStored = func(s times, amount int, i behavior.Info) times { spring(); return timed.EvolveStored(s, amount, i) }
			o.Logger = quiet
			return entity.New(s, b, o)
		})
	})
	t.Run("durable", func(t *testing.T) {
		t.Parallel()
		test(t, func(s annals.Store, o entity.Options, spring func()) (asks, error) {
			b := timedState
			b.Stored = func(s times, i behavior.Info) times { spring(); return timedState.Stored(s, i) }
			o.Logger = quiet
			return entity.NewState(s, b, o)
		})
	})
}

// While a write is in flight whose time becomes part of the state, no command is decided.
func TestStateThatKnowsItsTimeWaitsForIt(t *testing.T) {
	eachTimed(t, func(t *testing.T, start func(annals.Store, entity.Options, func()) (asks, error)) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			g := gated(s)
			rt, err := start(s, entity.Options{}, func() {})
			if err != nil {
				t.Fatal(err)
			}
			var answers []<-chan answer
			for range 3 {
				answers = append(answers, ask(t.Context(), rt, 5))
				synctest.Wait()
			}
			read := ask(t.Context(), rt, 0)
			synctest.Wait()
			for i, a := range answers {
				unanswered(t, a)
				g.pass()
				answered(t, a, 5*(i+1), nil)
			}
			answered(t, read, 15, nil)
			if n := s.writes.Load(); n != 3 {
				t.Errorf("%d writes, want one for each command", n)
			}
		})
	})
}

// After a panic in EvolveStored the events are stored already, so the state is read again.
func TestPanicAfterTheWrite(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			eachTimed(t, func(t *testing.T, start func(annals.Store, entity.Options, func()) (asks, error)) {
				calls := 0
				rt, err := start(newHooked(), entity.Options{}, func() {
					if calls++; calls == 1 {
						way.end()
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := rt.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrUnknown) || !errors.Is(err, annals.ErrPanic) {
					t.Errorf("%v, want an unknown outcome because of a panic", err)
				}
				mustAsk(t, rt, 1, 6)
			})
		})
	}
}

// When another owner has deleted the events of a commit whose answer was lost, the store no longer knows their time, so the outcome is
// unknown. On a store that keeps no times the command succeeds.
func TestTimeOfDeletedEventsIsNotKnown(t *testing.T) {
	t.Parallel()
	rt := deletesAndLosesTheFirst(t, true)
	if _, err := rt.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrUnknown) {
		t.Errorf("%v, want an unknown outcome", err)
	}
	mustAsk(t, rt, 1, 1)

	mustAsk(t, deletesAndLosesTheFirst(t, false), 5, 5)
}

// deletesAndLosesTheFirst is a runtime whose first events are deleted by another owner, and whose answer to their commit is lost.
func deletesAndLosesTheFirst(t *testing.T, hasTimes bool) *entity.Runtime[int, times, int] {
	s := newHooked()
	s.caps.Times = hasTimes
	s.write = func(ctx context.Context, w written, next func() error) error {
		err := next()
		if w.n == 1 && err == nil {
			err = errors.Join(s.Journal().DeleteTo(ctx, w.commit.ID, annals.MaxSeqNr), &annals.Error{Kind: annals.ErrUnknown})
		}
		return err
	}
	rt, err := entity.New(s, timed, entity.Options{MayDrop: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// Invalid combinations of Evolve, EvolveStored and Metadata are refused.
func TestFaultsOfEvolveStored(t *testing.T) {
	t.Parallel()
	s := newHooked()
	both, neither, unused, unusedState := timed, timed, account, accountState
	both.Evolve = func(s times, _ int) times { return s }
	neither.EvolveStored = nil
	unused.Metadata, unusedState.Metadata = codec.Union[any](), codec.Union[any]()
	_, errBoth := entity.New(s, both, entity.Options{})
	_, errNeither := entity.New(s, neither, entity.Options{})
	_, errUnused := entity.New(s, unused, entity.Options{})
	_, errUnusedState := entity.NewState(s, unusedState, entity.Options{})
	for name, err := range map[string]error{"both": errBoth, "neither": errNeither, "metadata": errUnused, "metadata of states": errUnusedState} {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	s.caps.Limits.FirstSnapshot = true
	if _, err := entity.New(s, timed, entity.Options{}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("a store that demands a snapshot with the first commit: %v, want unsupported", err)
	}
}

// Metadata that Info could not decode after a recovery is refused before it is written.
func TestMetadataThatIsNotReadBackIsRefused(t *testing.T) {
	t.Parallel()
	s := newHooked()
	s.caps.StateMetadata = true
	unknown := func(context.Context) (annals.Payload, error) {
		return annals.Payload{SerializerID: 99, Manifest: "x"}, nil
	}
	b, states := timed, timedState
	b.Metadata, states.Metadata = codec.Union[any](codec.JSON[string]("user")), codec.Union[any](codec.JSON[string]("user"))
	rt, _ := entity.New(s, b, entity.Options{Metadata: unknown})
	if _, err := rt.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrInvalid) || s.writes.Load() != 0 {
		t.Errorf("event: %v after %d writes, want invalid after none", err, s.writes.Load())
	}
	stateRuntime, _ := entity.NewState(s, states, entity.Options{Metadata: unknown})
	if _, err := stateRuntime.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrInvalid) || s.writes.Load() != 0 {
		t.Errorf("state: %v after %d writes, want invalid after none", err, s.writes.Load())
	}
}

// A state has the metadata of the command that changed it last, and a delete has its own.
func TestMetadataOfStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type user struct{}
		s := newHooked()
		g := gated(s)
		var wrote []string
		gate := s.write
		s.write = func(ctx context.Context, w written, next func() error) error {
			wrote = append(wrote, string(w.state.Metadata.Data))
			return gate(ctx, w, next)
		}
		b := accountState
		b.Decide = func(balance, amount int) (behavior.Effect[int], error) {
			if amount == -1 {
				return behavior.Delete[int](), nil
			}
			return accountState.Decide(balance, amount)
		}
		rt, _ := entity.NewState(s, b, entity.Options{Metadata: func(ctx context.Context) (annals.Payload, error) {
			return annals.Payload{SerializerID: 1, Data: []byte(ctx.Value(user{}).(string))}, nil
		}})
		for _, c := range []struct {
			name   string
			amount int
		}{{"ann", 1}, {"bob", 1}, {"cid", 1}, {"reads", 0}} {
			ask(context.WithValue(t.Context(), user{}, c.name), rt, c.amount)
			synctest.Wait()
		}
		close(g.open)
		synctest.Wait()
		<-ask(context.WithValue(t.Context(), user{}, "dan"), rt, -1)
		if want := []string{"ann", "cid", "dan"}; !slices.Equal(wrote, want) {
			t.Errorf("the writes have the metadata of %q, want %q", wrote, want)
		}
	})
}

// withSnapshots is account with snapshots of the given shape every two events.
func withSnapshots(manifest string) behavior.EventSourced[int, int, int, int] {
	b := account
	b.SnapshotEvery, b.States = 2, codec.JSON[int](manifest)
	return b
}

// deposit makes n deposits of 1 and returns when their snapshots are saved.
func deposit(t *testing.T, s annals.Store, b behavior.EventSourced[int, int, int, int], o entity.Options, n int) {
	t.Helper()
	o.Logger = quiet
	for range n {
		rt, err := entity.New(s, b, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// While the entity is rebuilt from its events, another owner replaces the snapshot and deletes the events. The snapshot is read again.
func TestRebuildIsOvertaken(t *testing.T) {
	t.Parallel()
	s := newHooked()
	deposit(t, s, withSnapshots("balance"), entity.Options{}, 4)
	overtaken := false
	rt, _ := entity.New(&faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Op == "replay" && *c.Arg.(*annals.SeqNr) == 1 && !overtaken {
			overtaken = true
			deposit(t, s, withSnapshots("balance/2"), entity.Options{DeleteEvents: true}, 2)
		}
		return run()
	}}, withSnapshots("balance/2"), entity.Options{Logger: quiet})
	mustAsk(t, rt, 1, 7)
	if !overtaken {
		t.Error("the entity was not rebuilt")
	}
	for e, err := range s.Journal().Replay(t.Context(), "Account|a", 1, 4) {
		t.Errorf("event %d, %v, is there: nothing was overtaken", e.SeqNr, err)
	}
}

// When the newest snapshot cannot be decoded and the events are deleted, an older snapshot is used.
func TestRebuildFromAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	s := newHooked()
	keep := entity.Options{KeepSnapshots: 2, DeleteEvents: true}
	deposit(t, s, withSnapshots("balance"), keep, 4)
	lifts := withSnapshots("balance/2")
	lifts.States = codec.JSON("balance/2", codec.Was(codec.JSON[int]("balance"), func(balance int) (int, error) { return balance, nil }))
	deposit(t, s, lifts, keep, 2)
	for e, err := range s.Journal().Replay(t.Context(), "Account|a", 1, 4) {
		t.Fatalf("event %d, %v, is not deleted", e.SeqNr, err)
	}
	o := keep
	o.Logger = quiet
	rt, _ := entity.New(s, withSnapshots("balance"), o)
	mustAsk(t, rt, 1, 7)
}

// A snapshot whose decoding panics counts as one that cannot be decoded. The Observer gets the number of all events that were read.
func TestRebuildWhenDecodingPanics(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := newHooked()
			deposit(t, s, withSnapshots("balance"), entity.Options{}, 3)
			b := withSnapshots("balance")
			b.States = codec.Of(31, "balance", func(int) ([]byte, error) { return nil, nil }, func([]byte) (int, error) { way.end(); return 0, nil })
			counted := &counting{}
			rt, _ := entity.New(s, b, entity.Options{Logger: quiet, Observer: counted})
			mustAsk(t, rt, 0, 3)
			if counted.events != 4 {
				t.Errorf("the Observer was told of %d events, want 1 after the snapshot and all 3", counted.events)
			}
		})
	}
}

// counting is an Observer that counts the events of loads.
type counting struct{ events int }

func (o *counting) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (o *counting) End(_ context.Context, c annals.Call, r annals.Result) {
	if c.Op == "load" {
		o.events += r.Events
	}
}
