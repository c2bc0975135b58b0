package followtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// on is a target whose entries are values of the store in memory.
func on(store projection.TxStore[memstore.Tx]) Target[memstore.Tx] {
	read := func(tx memstore.Tx) map[Entry]bool {
		all, _ := tx.Value("entries").(map[Entry]bool)
		return all
	}
	return Target[memstore.Tx]{
		Store: store,
		Add: func(_ context.Context, tx memstore.Tx, e Entry) error {
			all := maps.Clone(read(tx))
			if all == nil {
				all = map[Entry]bool{}
			}
			all[e] = true
			tx.SetValue("entries", all)
			return nil
		},
		Entries: func(ctx context.Context) (all []Entry, err error) {
			err = store.InTx(ctx, func(_ context.Context, tx memstore.Tx, _ annals.Store) error {
				all = slices.Collect(maps.Keys(read(tx)))
				return nil
			})
			return all, err
		},
	}
}

// apart is a target whose events are in another store, in which they become visible late.
func apart() Target[memstore.Tx] {
	target := on(memstore.New())
	target.Events = late.New(late.Options{Lateness: 400 * time.Millisecond, Skew: 20 * time.Millisecond, Grain: 2 * time.Millisecond, Fixed: true})
	target.Late = map[string]Late{"events below the position": {Begin: func(context.Context) (Store, error) {
		return func(ctx context.Context, passed time.Time, cs ...annals.Commit) (err error) {
			for _, c := range cs {
				for i := range c.Events {
					c.Events[i].Time = passed.Add(-10 * time.Millisecond)
				}
				_, failed := target.Events.Journal().Append(ctx, c)
				err = errors.Join(err, failed)
			}
			return err
		}, nil
	}}}
	return target
}

func TestProjectionsInMemory(t *testing.T) {
	Projections(t, func(*testing.T) Target[memstore.Tx] { return on(memstore.New()) })
}

func TestProjectionsOfLateEvents(t *testing.T) {
	Projections(t, func(*testing.T) Target[memstore.Tx] { return apart() })
}

// The suite finds runners that do one thing wrong, which stores make of them that lie. Those that ignore conflicts, and those whose lease has
// no fence, are in TestSchedules.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		lies lies
		g    guarantee
	}{
		"drops the window":            {lies{inOrder: true}, exactlyOnce},
		"drops the window of states":  {lies{inOrder: true}, ofStates},
		"trusts the clock":            {lies{now: true}, exactlyOnce},
		"ignores holes":               {lies{noHoles: true}, exactlyOnce},
		"resumes at the maximum":      {lies{newest: true, once: true}, exactlyOnce},
		"handles again what it knows": {lies{beyond: true}, exactlyOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				w := newWorld(apart(), m.g)
				w.kills, w.lies, w.patience = 16, m.lies, 3*time.Second
				if err := w.run(t.Context()); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// One guard alone keeps each schedule right. Without guards the schedule finds that an event is handled twice.
func TestSchedules(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]struct {
		guards lies
		others []lies
	}{
		"a loop without a lease": {lies{once: true}, []lies{{epoch: true}}},
		"stopped in a retry":     {lies{epoch: true, revision: true}, []lies{{once: true, epoch: true}, {once: true, revision: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := schedules[memstore.Tx]()[name]
			for _, others := range without.others {
				if err := s.in(t.Context(), on(memstore.New()), others); err != nil {
					t.Errorf("with one guard: %v", err)
				}
			}
			if err := s.in(t.Context(), on(memstore.New()), without.guards); err == nil {
				t.Error("without guards nothing was handled twice")
			}
		})
	}
}
