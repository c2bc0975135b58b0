package followtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// on is a target whose entries are values of the store in memory.
func on(store projection.TxStore[memstore.Tx]) Target[memstore.Tx] {
	read := func(tx memstore.Tx) []Entry {
		all, _ := tx.Value("entries").([]Entry)
		return slices.Clip(all) // what is appended is undone with its transaction
	}
	return Target[memstore.Tx]{
		Store: store,
		Add: func(_ context.Context, tx memstore.Tx, e Entry) error {
			tx.SetValue("entries", append(read(tx), e))
			return nil
		},
		Entries: func(ctx context.Context) (all []Entry, err error) {
			err = store.InTx(ctx, func(_ context.Context, tx memstore.Tx, _ annals.Store) error {
				all = slices.Clone(read(tx))
				return nil
			})
			return all, err
		},
	}
}

// apart is a target whose events are in another store, in which they become visible late, in another order than that of their times, which step
// back and are often equal.
func apart(r *random.Source) Target[memstore.Tx] {
	const lateness = 400 * time.Millisecond
	target := on(memstore.New())
	target.Events = late.New(late.Options{Seed: r.Uint64(), Lateness: lateness, Skew: random.OneOf(r, 0, lateness/20, lateness/4),
		Grain: random.OneOf(r, time.Microsecond, lateness/200, lateness/10), Fixed: r.OneIn(2)})
	target.Late = map[string]Late{below: {Begin: func(context.Context) (Store, error) {
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

const below = "events below the position"

func TestProjectionsInMemory(t *testing.T) {
	t.Parallel()
	inBubbles(t, nil, 3, func(*random.Source) Target[memstore.Tx] { return on(memstore.New()) })
}

func TestProjectionsOfLateEvents(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]Late{below: {}}, 12, apart)
}

// inBubbles runs each of the cases with n seeds, in bubbles.
func inBubbles(t *testing.T, ways map[string]Late, n int, open func(r *random.Source) Target[memstore.Tx]) {
	t.Helper()
	if testing.Short() {
		n = min(n, 2)
	}
	for name, c := range cases[memstore.Tx](ways, 3) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := n
			if name == below { // it takes long
				n = 1
			}
			random.Each(t, n, func(t *testing.T, r *random.Source) {
				synctest.Test(t, func(t *testing.T) { c(t, open(r), r) })
			})
		})
	}
}

// The suite finds runners that do one thing wrong, which stores make of them that lie. Those that ignore conflicts, and those whose lease has
// no fence, are in TestSchedules.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		lies late.Lies
		g    guarantee
	}{
		"drops the window":            {late.Lies{InOrder: true}, exactlyOnce},
		"drops the window of states":  {late.Lies{InOrder: true}, ofStates},
		"trusts the clock":            {late.Lies{Now: true}, exactlyOnce},
		"ignores holes":               {late.Lies{NoHoles: true}, exactlyOnce},
		"resumes at the maximum":      {late.Lies{Newest: true, Once: true}, exactlyOnce},
		"handles again what it knows": {late.Lies{Beyond: true}, exactlyOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for r := range random.Rounds(t, 20) {
				var err error
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(apart(r), m.g, r)
					w.kills, w.lies, w.patience = 16, m.lies, 3*time.Second
					err = w.run(t.Context())
				})
				if err != nil {
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
		guards late.Lies
		others []late.Lies
	}{
		"a loop without a lease": {late.Lies{Once: true}, []late.Lies{{Epoch: true}}},
		"stopped in a retry":     {late.Lies{Epoch: true, Revision: true}, []late.Lies{{Once: true, Epoch: true}, {Once: true, Revision: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, r := schedules[memstore.Tx]()[name], random.New(t)
				for _, others := range without.others {
					if err := s.in(t.Context(), on(memstore.New()), others, r); err != nil {
						t.Errorf("with one guard: %v", err)
					}
				}
				if err := s.in(t.Context(), on(memstore.New()), without.guards, r); err == nil {
					t.Error("without guards nothing was handled twice")
				}
			})
		})
	}
}
