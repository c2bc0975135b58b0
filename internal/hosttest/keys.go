package hosttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/random"
)

// Keys sends commands with keys to a few accounts, each of them several times, at the same time and from here and there, two stores that are open
// on the same data. Every third answer of a transaction that was stored is lost. Each command takes effect once, and gets one reply.
func Keys(t *testing.T, here, there annals.Store) {
	t.Helper()
	var answers atomic.Int64
	stores := []annals.Store{losing{here, &answers}, losing{there, &answers}}
	open := func(s annals.Store, states bool) (keyedHost, error) {
		if states {
			return aggregate.NewState(s, keyedState, aggregate.Options{})
		}
		return aggregate.New(s, keyedAccount, aggregate.Options{})
	}
	for _, states := range []bool{false, true} {
		t.Run(fmt.Sprintf("states %t", states), func(t *testing.T) {
			r := random.New(t)
			var hosts []keyedHost
			for _, s := range stores {
				h, err := open(s, states)
				if err != nil {
					t.Fatal(err)
				}
				hosts = append(hosts, h)
			}
			if err := sendKeys(t.Context(), hosts, states, r); err != nil {
				t.Error(err)
			}
		})
	}
}

// keyedHost is a repository of keyedAccount or keyedState. A reply is the balance after the command.
type keyedHost interface {
	DoOnce(ctx context.Context, key, id string, amount int) (behavior.Result[int], error)
	Load(ctx context.Context, id string) (int, annals.SeqNr, error)
}

var errOverdrawn = errors.New("the balance is too low")

// keyedAccount adds the amount to the balance, in an event for each 50 of it. Amount 0 decides nothing.
var keyedAccount = behavior.EventSourced[int, int, int, int]{
	Type: "KeyedAccount",
	Decide: func(balance, amount int) (parts []int, err error) {
		if balance+amount < 0 {
			return nil, errOverdrawn
		}
		for ; amount > 50; amount -= 50 {
			parts = append(parts, 50)
		}
		if amount != 0 {
			parts = append(parts, amount)
		}
		return parts, nil
	},
	Evolve: func(balance, part int) int { return balance + part },
	Reply: func(balance, amount int, parts []int) int {
		for _, part := range parts {
			amount -= part
		}
		return balance + 1_000_000*amount // the parts are those of the amount
	},
}

var keyedState = behavior.DurableState[int, int, int]{
	Type: "KeyedState",
	Decide: func(balance, amount int) (behavior.Effect[int], error) {
		switch {
		case balance+amount < 0:
			return behavior.Effect[int]{}, errOverdrawn
		case amount == 0:
			return behavior.Effect[int]{}, nil
		}
		return behavior.Save(balance + amount), nil
	},
	Reply: func(balance, _ int) int { return balance },
}

const (
	keyedEntities = 2
	keyedCommands = 12 // for each of them
	keyedSenders  = 3  // of each command
)

func sendKeys(ctx context.Context, hosts []keyedHost, states bool, r *random.Source) error {
	var mu sync.Mutex
	replies := map[string]map[behavior.Result[int]]bool{} // by key
	amounts := [keyedEntities][keyedCommands]int{}
	for i := range amounts {
		for j := range amounts[i] {
			amounts[i][j] = random.OneOf(r, 0, 1, 49, 120)
		}
	}
	var wg sync.WaitGroup
	var failed []error
	for sender := range keyedSenders {
		for i := range amounts {
			wg.Go(func() {
				for j, amount := range amounts[i] {
					key, id := fmt.Sprintf("key-%d-%d", i, j), fmt.Sprint("a-", i)
					result, err := settledOnce(ctx, hosts[(sender+j)%len(hosts)], key, id, amount)
					mu.Lock()
					if replies[key] == nil {
						replies[key] = map[behavior.Result[int]]bool{}
					}
					if states {
						result.Reply = 0 // is that of a later state
					}
					replies[key][result] = true
					failed = append(failed, err)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for key, all := range replies {
		if len(all) != 1 {
			failed = append(failed, fmt.Errorf("the command with %s got the replies %v", key, all))
		}
	}
	for i := range amounts {
		want := 0
		for _, amount := range amounts[i] {
			want += amount
		}
		got, _, err := hosts[0].Load(ctx, fmt.Sprint("a-", i))
		if got != want || err != nil {
			failed = append(failed, fmt.Errorf("the balance of account %d is %d, %w, want %d", i, got, err, want))
		}
	}
	// A rejection is not remembered.
	if _, err := settledOnce(ctx, hosts[0], "later", "b", -5); !errors.Is(err, errOverdrawn) {
		failed = append(failed, fmt.Errorf("an overdraft: %w", err))
	}
	for i, c := range []struct {
		key          string
		amount, want int
	}{{"first", 7, 7}, {"later", -5, 2}, {"later", -5, 2}, {"first", 7, 7}} {
		if states && i == 3 {
			c.want = 2 // a durable state has no past
		}
		if got, err := settledOnce(ctx, hosts[1], c.key, "b", c.amount); got.Reply != c.want || err != nil {
			failed = append(failed, fmt.Errorf("command %d: %d, %w, want %d", i, got.Reply, err, c.want))
		}
	}
	return errors.Join(failed...)
}

// settledOnce sends a command until it has an answer.
func settledOnce(ctx context.Context, h keyedHost, key, id string, amount int) (behavior.Result[int], error) {
	for try := 0; ; try++ {
		result, err := h.DoOnce(ctx, key, id, amount)
		if err == nil || !errors.Is(err, annals.ErrUnknown) && !annals.SafeToRetry(err) || backoff.Wait(ctx, try) != nil {
			return result, err
		}
	}
}
