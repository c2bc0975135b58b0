package hosttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/backoff"
)

// Rules runs the transactions of the guide to transactions side by side, on here and there, two stores that are open on the same data. Every third answer
// of a transaction that was stored is lost. Of two doctors one stays on duty, if the store guards reads, and an address has one owner.
func Rules(t *testing.T, here, there annals.Store) {
	t.Helper()
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	var answers atomic.Int64
	stores := []annals.Store{losing{here, &answers}, losing{there, &answers}}
	if here.Capabilities().GuardsReads {
		t.Run("two doctors", func(t *testing.T) {
			if err := doctors(t.Context(), stores, rounds); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("an address", func(t *testing.T) {
		if err := addresses(t.Context(), stores, rounds); err != nil {
			t.Error(err)
		}
	})
}

// losing is a store that loses every third answer of transactions that were stored.
type losing struct {
	annals.Store
	answers *atomic.Int64
}

func (s losing) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	err := ability.Atomically(ctx, s.Store, fn)
	if err == nil && s.answers.Add(1)%3 == 0 {
		return &annals.Error{Op: "transaction", Kind: annals.ErrUnknown, Err: errors.New("the answer was lost on purpose")}
	}
	return err
}

// settled runs fn in transactions of s until one is stored or refused.
func settled(ctx context.Context, s annals.Store, fn func(ctx context.Context, in annals.Store) error) error {
	for try := 0; ; try++ {
		err := ability.Atomically(ctx, s, fn)
		open := errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrUnknown) || annals.SafeToRetry(err)
		if !open || backoff.Wait(ctx, try) != nil {
			return err
		}
	}
}

// keeper is an entity that keeps the last value that it was given. The command is the value.
func keeper(entityType string, refuses func(has, value string) error) behavior.EventSourced[string, string, string, struct{}] {
	return behavior.EventSourced[string, string, string, struct{}]{
		Type: entityType,
		Decide: func(has, value string) ([]string, error) {
			if err := refuses(has, value); err != nil || has == value {
				return nil, err
			}
			return []string{value}, nil
		},
		Evolve: func(_, value string) string { return value },
	}
}

var (
	errNobodyElse = errors.New("nobody else is on duty")
	errTaken      = errors.New("the address belongs to another user")

	doctorBehavior  = keeper("Doctor", func(_, _ string) error { return nil })
	userBehavior    = keeper("User", func(_, _ string) error { return nil })
	addressBehavior = keeper("Address", func(owner, user string) error {
		if owner != "" && owner != user {
			return errTaken
		}
		return nil
	})
)

const onDuty, away = "on duty", "away"

// doctors has two doctors leave at the same time, each unless the other one has left.
func doctors(ctx context.Context, stores []annals.Store, rounds int) error {
	for round := range rounds {
		ids := []string{fmt.Sprint("ada-", round), fmt.Sprint("ben-", round)}
		all, err := aggregate.New(stores[0], doctorBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := all.Do(ctx, id, onDuty); err != nil {
				return err
			}
		}
		errs := atOnce(len(ids), func(i int) error {
			return settled(ctx, stores[i], func(ctx context.Context, in annals.Store) error {
				all, err := aggregate.New(in, doctorBehavior, aggregate.Options{})
				if err != nil {
					return err
				}
				if other, _, err := all.Load(ctx, ids[1-i]); err != nil || other != onDuty {
					return errors.Join(err, errNobodyElse)
				}
				_, err = all.Do(ctx, ids[i], away)
				return err
			})
		})
		var states []string
		for i, id := range ids {
			state, _, err := all.Load(ctx, id)
			if states = append(states, state); err != nil {
				return err
			}
			if left := state == away; left != (errs[i] == nil) || !left && !errors.Is(errs[i], errNobodyElse) {
				return fmt.Errorf("round %d: %s is %s, and the answer was: %w", round, id, state, errs[i])
			}
		}
		if !slices.Contains(states, onDuty) || !slices.Contains(states, away) {
			return fmt.Errorf("round %d: the doctors are %q, want one of them on duty", round, states)
		}
	}
	return nil
}

// addresses has three users register one address at the same time.
func addresses(ctx context.Context, stores []annals.Store, rounds int) error {
	for round := range rounds {
		at, names := fmt.Sprintf("a%d@example.org", round), []string{fmt.Sprint("ada-", round), fmt.Sprint("ben-", round), fmt.Sprint("cay-", round)}
		errs := atOnce(len(names), func(i int) error {
			return settled(ctx, stores[i%len(stores)], func(ctx context.Context, in annals.Store) error {
				addresses, errA := aggregate.New(in, addressBehavior, aggregate.Options{})
				users, errU := aggregate.New(in, userBehavior, aggregate.Options{})
				if err := errors.Join(errA, errU); err != nil {
					return err
				}
				if _, err := addresses.Do(ctx, at, names[i]); err != nil {
					return err
				}
				_, err := users.Do(ctx, names[i], at)
				return err
			})
		})
		addresses, errA := aggregate.New(stores[0], addressBehavior, aggregate.Options{})
		users, errU := aggregate.New(stores[0], userBehavior, aggregate.Options{})
		if err := errors.Join(errA, errU); err != nil {
			return err
		}
		owner, _, err := addresses.Load(ctx, at)
		if err != nil {
			return err
		}
		if !slices.Contains(names, owner) {
			return fmt.Errorf("round %d: the owner is %q", round, owner)
		}
		for i, name := range names {
			has, _, err := users.Load(ctx, name)
			if err != nil {
				return err
			}
			if owns := owner == name; owns != (has == at) || owns != (errs[i] == nil) || !owns && !errors.Is(errs[i], errTaken) {
				return fmt.Errorf("round %d: the owner is %s, %s has %q, and the answer was: %w", round, owner, name, has, errs[i])
			}
		}
	}
	return nil
}

// atOnce runs n functions at the same time.
func atOnce(n int, run func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = run(i) })
	}
	wg.Wait()
	return errs
}
