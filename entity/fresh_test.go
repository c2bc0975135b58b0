package entity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// An answer without a write, also a rejection, reflects what another runtime wrote before the command was sent.
func TestAskSeesWhatOthersWrote(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt, other := start(s, entity.Options{}), start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		mustAsk(t, other, 10, 15)
		mustAsk(t, rt, 0, 15)
		mustAsk(t, other, 85, 100)
		mustAsk(t, rt, -90, 10)
		mustAsk(t, other, 0, 10)
		mustAsk(t, rt, -10, 0)
		if _, err := other.Ask(t.Context(), "a", -1); !errors.Is(err, errPoor) {
			t.Errorf("%v, want the rejection by the newest balance", err)
		}
	})
}

// An entity that another process deletes, or forgets and begins again, has the new state everywhere, whatever this runtime remembers: the next
// answer and the next write are those of the new entity.
func TestDeletedByAnother(t *testing.T) {
	t.Parallel()
	for name, open := range kinds {
		for _, forgotten := range []bool{false, true} {
			for _, amount := range []int{0, 7} {
				t.Run(fmt.Sprintf("%s, forgotten %t, then %d", name, forgotten, amount), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { deletedByAnother(t, open, forgotten, amount) })
				})
			}
		}
	}
}

func deletedByAnother(t *testing.T, open func(annals.Store, entity.Options) (*entity.Runtime[int, int, int], error), forgotten bool, amount int) {
	s := memstore.New()
	rt, err := open(s, entity.Options{IdleAfter: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	other, err := open(s, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cleaner, err := cleanup.New(s, cleanup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	forget := func(want cleanup.Report) {
		want.Entities, want.Last = 1, account.ID("a")
		if got, err := cleaner.ForgetEntities(t.Context(), cleanup.IDs(want.Last)); got.Forgotten != want.Forgotten || err != nil {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
	mustAsk(t, rt, 5, 5)
	mustAsk(t, rt, 5, 10)
	forget(cleanup.Report{Waiting: 1})
	sum := 0
	if forgotten {
		time.Sleep(ability.ForgetAge + time.Second)
		forget(cleanup.Report{Forgotten: 1})
		sum = 2
		mustAsk(t, other, 1, 1)
		mustAsk(t, other, 1, sum)
	}
	mustAsk(t, rt, amount, sum+amount)
	mustAsk(t, other, 0, sum+amount)
}

// A load that takes longer than a state counts without an answer of the store is enough for the commands that have waited for it.
func TestLongLoad(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.read = func(context.Context, annals.PersistenceID) error { time.Sleep(ability.ForgetAge / 2); return nil }
		rt := start(s, entity.Options{RecoveryTimeout: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), ability.ForgetAge)
		defer cancel()
		if got, err := rt.Ask(ctx, "a", 5); got != 5 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
		_ = rt.Shutdown(t.Context())
	})
}

// The commands that were decided while a write was in flight share one look at the store, and need none when one of them
// writes.
func TestOneLookForABatch(t *testing.T) {
	t.Parallel()
	for name, open := range kinds {
		for _, c := range []struct {
			amounts []int
			looks   int64
		}{
			{[]int{0}, 1},
			{[]int{0, -100, 0, 0, -200}, 1},
			{[]int{0, -100, 1, 0, -200}, 0},
		} {
			t.Run(fmt.Sprint(name, c.amounts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newHooked()
					rt, err := open(s, entity.Options{})
					if err != nil {
						t.Fatal(err)
					}
					mustAsk(t, rt, 5, 5)
					g, first := held(t, s, rt, 1)
					s.looks.Store(0)
					var all []<-chan answer
					for _, amount := range c.amounts {
						all = append(all, ask(t.Context(), rt, amount))
						synctest.Wait()
					}
					g.pass()
					answered(t, first, 6, nil)
					if c.looks == 0 {
						g.pass() // the write of the batch
					}
					for _, ch := range all {
						if a := <-ch; a.err != nil && !errors.Is(a.err, errPoor) {
							t.Error(a.err)
						}
					}
					if got := s.looks.Load(); got != c.looks {
						t.Errorf("%d looks at the store, want %d", got, c.looks)
					}
					_ = rt.Shutdown(t.Context())
				})
			})
		}
	}
}

// A single owner answers from memory.
func TestSingleOwnerAnswersFromMemory(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt, other := start(s, entity.Options{SingleOwner: true}), start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		mustAsk(t, other, 10, 15)
		s.looks.Store(0)
		mustAsk(t, rt, 0, 5)
		if n := s.looks.Load(); n != 0 {
			t.Errorf("%d looks at the store", n)
		}
	})
}

// An answer that wrote nothing reads from the store once, and not at all when the command writes or the entity has just been loaded.
func TestAsksTheStoreOnlyWhenItMust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		rt, _ := entity.New(s, account, entity.Options{})
		fresh := func(amount, want int, looks int64) {
			t.Helper()
			s.looks.Store(0)
			if got, err := rt.Ask(t.Context(), "a", amount); got != want || err != nil || s.looks.Load() != looks {
				t.Errorf("%d, %v after %d looks at the store, want %d after %d", got, err, s.looks.Load(), want, looks)
			}
		}
		mustAsk(t, rt, 5, 5)
		fresh(0, 5, 1)
		fresh(1, 6, 0)
		_ = rt.Shutdown(t.Context())
		rt, _ = entity.New(s, account, entity.Options{})
		fresh(0, 6, 0) // has just been loaded
	})
}

// When the confirming read fails, the command fails for certain: it would have written nothing.
func TestFailsWhenTheStoreCannotBeAsked(t *testing.T) {
	t.Parallel()
	s := newHooked()
	rt, err := entity.NewState(s, accountState, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustAsk(t, rt, 5, 5)
	down := errors.New("connection refused")
	s.read = func(context.Context, annals.PersistenceID) error { return down }
	if _, err := rt.Ask(t.Context(), "a", 0); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, down) {
		t.Errorf("%v, want unavailable", err)
	}
	s.read = nil
	mustAsk(t, rt, 1, 6)
}
