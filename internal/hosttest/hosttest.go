// Package hosttest checks hosts of behaviors on a store: the answers of two runtimes on the same data must be linearizable, and a recovery must
// bring back the state that was in memory.
package hosttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/random"
)

// TwoRuntimes runs one runtime on here and one on there, two stores that are open on the same data. Clients of both send commands to the
// same few entities concurrently. Some order of the commands must explain every answer, also each rejection and each reply to a
// command that only read. It checks event-sourced entities and, if the store has durable states, those too.
func TwoRuntimes(t *testing.T, here, there annals.Store) {
	t.Helper()
	for name, start := range kinds(here.Capabilities()) {
		t.Run(name, func(t *testing.T) {
			calls, err := play(t.Context(), random.New(t), start, here, there, entity.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !linearizable(calls) {
				t.Errorf("no order of the %d commands explains their answers", len(calls))
			}
		})
	}
}

// starter starts a runtime of accounts.
type starter func(s annals.Store, o entity.Options) (*entity.Runtime[int, int, int], error)

func kinds(c annals.Capabilities) map[string]starter {
	account := account
	if c.Snapshots {
		account.SnapshotEvery = 7
	}
	found := map[string]starter{"sourced": func(s annals.Store, o entity.Options) (*entity.Runtime[int, int, int], error) {
		o.KeepSnapshots, o.DeleteEvents = 2, c.Snapshots && c.FenceAfterDelete
		return entity.New(s, account, o)
	}}
	if c.States {
		found["durable"] = func(s annals.Store, o entity.Options) (*entity.Runtime[int, int, int], error) {
			return entity.NewState(s, accountState, o)
		}
	}
	return found
}

// account is a balance. A command adds its amount, 0 only reads, and a balance below zero is rejected.
var account = behavior.EventSourced[int, int, int, int]{
	Type: "TwoRuntimes",
	Decide: func(balance, amount int) ([]int, error) {
		if err := allowed(balance, amount); err != nil || amount == 0 {
			return nil, err
		}
		return []int{amount}, nil
	},
	Evolve: func(balance, amount int) int { return balance + amount },
	Reply:  func(balance, _ int, _ []int) int { return balance },
	Events: codec.JSON[int]("moved"),
	States: codec.JSON[int]("balance"),
}

var accountState = behavior.DurableState[int, int, int]{
	Type: "TwoRuntimesState",
	Decide: func(balance, amount int) (none behavior.Effect[int], err error) {
		if err := allowed(balance, amount); err != nil || amount == 0 {
			return none, err
		}
		return behavior.Save(balance + amount), nil
	},
	Reply:  func(balance, _ int) int { return balance },
	States: codec.JSON[int]("balance"),
}

var errPoor = errors.New("the balance is too low")

func allowed(balance, amount int) error {
	if balance+amount < 0 {
		return errPoor
	}
	return nil
}

const (
	entities = 2
	clients  = 6 // half of them of each runtime
	steps    = 40
)

// command is one Ask, and answer what it returned.
type command struct {
	id     string
	amount int
}

type answer struct {
	balance  int
	rejected bool
	unknown  bool // the command may have been stored, or may be stored later
}

// play lets clients of two runtimes send commands and returns the history of commands and answers.
func play(ctx context.Context, r *random.Source, start starter, here, there annals.Store, o entity.Options) ([]porcupine.Operation, error) {
	var runtimes [2]*entity.Runtime[int, int, int]
	for i, s := range []annals.Store{here, there} {
		rt, err := start(s, o)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rt.Shutdown(context.WithoutCancel(ctx)) }()
		runtimes[i] = rt
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		calls  []porcupine.Operation
		failed error
		began  = time.Now()
	)
	for client := range clients {
		wg.Go(func() {
			for range steps {
				c := command{id: fmt.Sprint(r.IntN(entities)), amount: amount(r)}
				op := porcupine.Operation{ClientId: client, Input: c, Call: int64(time.Since(began))}
				balance, err := run(ctx, runtimes[client%2], c, r.OneIn(2))
				op.Return = int64(time.Since(began))
				a := answer{balance: balance, rejected: errors.Is(err, errPoor), unknown: errors.Is(err, annals.ErrUnknown)}
				op.Output = a
				if a.unknown {
					op.Return = math.MaxInt64
				}
				mu.Lock()
				if err != nil && !a.rejected && !a.unknown {
					failed = errors.Join(failed, err)
				}
				calls = append(calls, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return calls, failed
}

// run sends c. What only reads is a View, or an Ask where asks says so.
func run(ctx context.Context, rt *entity.Runtime[int, int, int], c command, asks bool) (balance int, err error) {
	if c.amount != 0 || asks {
		return rt.Ask(ctx, c.id, c.amount)
	}
	err = rt.View(ctx, c.id, func(now int, _ annals.SeqNr) error { balance = now; return nil })
	return balance, err
}

// amount is 0, which only reads, for one of three commands. Otherwise it is as often negative as positive, so that rejections are
// frequent.
func amount(r *random.Source) int {
	if r.OneIn(3) {
		return 0
	}
	return r.IntN(201) - 100
}

// linearizable reports whether some order of the calls that agrees with their times explains their answers.
func linearizable(calls []porcupine.Operation) bool {
	return porcupine.CheckOperations(porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, entities)
			for _, op := range all {
				i := op.Input.(command).id[0] - '0'
				parts[i] = append(parts[i], op)
			}
			return parts
		},
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			balance, c, a := state.(int), input.(command), output.(answer)
			if allowed(balance, c.amount) != nil {
				return a.rejected || a.unknown, balance
			}
			balance += c.amount
			return a.unknown || !a.rejected && a.balance == balance, balance
		},
	}, calls)
}
