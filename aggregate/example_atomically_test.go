package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
)

// The state of a doctor says whether he or she is on duty.
var doctorBehavior = behavior.EventSourced[Duty, Duty, Doctor, struct{}]{
	Type:   "Doctor",
	Decide: func(_ Doctor, c Duty) ([]Duty, error) { return []Duty{c}, nil },
	Evolve: func(_ Doctor, e Duty) Doctor { return Doctor{OnDuty: e.Begins} },
}

type (
	Duty   struct{ Begins bool }
	Doctor struct{ OnDuty bool }
)

var errNobodyElse = errors.New("nobody else is on duty")

// leave lets a doctor leave, unless nobody else is on duty. It decides again when another process has written meanwhile.
func leave(ctx context.Context, store annals.Store, doctor string, others ...string) error {
	for {
		err := ability.Atomically(ctx, store, func(ctx context.Context, in annals.Store) error {
			doctors, err := aggregate.New(in, doctorBehavior, aggregate.Options{})
			if err != nil {
				return err
			}
			onDuty := 0
			for _, other := range others {
				d, _, err := doctors.Load(ctx, other)
				if err != nil {
					return err
				}
				if d.OnDuty {
					onDuty++
				}
			}
			if onDuty == 0 {
				return errNobodyElse
			}
			_, err = doctors.Do(ctx, doctor, Duty{Begins: false})
			return err
		})
		if !errors.Is(err, annals.ErrConflict) {
			return err
		}
	}
}

// Two doctors want to leave at the same time. What a transaction has read guards it, so one of them stays.
func Example_ruleOverTwoEntities() {
	ctx := context.Background()
	store := memstore.New()
	doctors, err := aggregate.New(store, doctorBehavior, aggregate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"ada", "ben"} {
		if _, err := doctors.Do(ctx, id, Duty{Begins: true}); err != nil {
			fmt.Println(err)
			return
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = leave(ctx, store, "ada", "ben") })
	wg.Go(func() { errs[1] = leave(ctx, store, "ben", "ada") })
	wg.Wait()
	fmt.Println(errors.Is(errors.Join(errs...), errNobodyElse), errs[0] == nil || errs[1] == nil)
	// Output: true true
}

var errTaken = errors.New("the address belongs to another user")

// addressBehavior is the owner of an e-mail address.
var addressBehavior = behavior.EventSourced[string, string, string, struct{}]{
	Type: "Address",
	Decide: func(owner, user string) ([]string, error) {
		switch owner {
		case "":
			return []string{user}, nil
		case user:
			return nil, nil
		}
		return nil, errTaken
	},
	Evolve: func(_, owner string) string { return owner },
}

var userBehavior = behavior.EventSourced[string, string, string, struct{}]{
	Type:   "User",
	Decide: func(_, address string) ([]string, error) { return []string{address}, nil },
	Evolve: func(_, address string) string { return address },
}

// register gives an address to a user, unless another user has it. The address is the id of an entity.
func register(ctx context.Context, store annals.Store, user, address string) error {
	return ability.Atomically(ctx, store, func(ctx context.Context, in annals.Store) error {
		addresses, errA := aggregate.New(in, addressBehavior, aggregate.Options{})
		users, errU := aggregate.New(in, userBehavior, aggregate.Options{})
		if err := errors.Join(errA, errU); err != nil {
			return err
		}
		if _, err := addresses.Do(ctx, address, user); err != nil {
			return err
		}
		_, err := users.Do(ctx, user, address)
		return err
	})
}

// A value that only one entity may have is the id of another entity.
func Example_uniqueValue() {
	ctx := context.Background()
	store := memstore.New()
	fmt.Println(register(ctx, store, "ada", "a@example.org"))
	fmt.Println(errors.Is(register(ctx, store, "ben", "a@example.org"), errTaken))
	// Output:
	// <nil>
	// true
}
