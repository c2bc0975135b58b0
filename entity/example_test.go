package entity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// A counter: its commands, events, state and replies are all ints.
var counter = behavior.EventSourced[int, int, int, int]{
	Type:   "Counter",
	Decide: func(total, add int) ([]int, error) { return []int{add}, nil },
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

func Example() {
	ctx := context.Background()

	counters, err := entity.New(memstore.New(), counter, entity.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	total, err := counters.Ask(ctx, "c-1", 5)
	fmt.Println(total, err)
	total, err = counters.Ask(ctx, "c-1", 2)
	fmt.Println(total, err)
	fmt.Println(counters.Shutdown(ctx))
	// Output:
	// 5 <nil>
	// 7 <nil>
	// <nil>
}

// Deposit is a command that carries its id: the caller chooses it, and sends the same again when in doubt.
type Deposit struct {
	ID     string
	Amount int
}

// Deposited carries the id of its command.
type Deposited struct {
	ID     string
	Amount int
}

// Wallet knows the newest commands that it has done.
type Wallet struct {
	Balance int
	Done    []string
}

var wallet = behavior.EventSourced[Deposit, Deposited, Wallet, int]{
	Type: "Wallet",
	Decide: func(w Wallet, d Deposit) ([]Deposited, error) {
		if slices.Contains(w.Done, d.ID) {
			return nil, nil // done before: the reply says how things are
		}
		return []Deposited{Deposited(d)}, nil
	},
	Evolve: func(w Wallet, d Deposited) Wallet {
		w.Balance += d.Amount
		w.Done = append(w.Done, d.ID)
		w.Done = w.Done[max(0, len(w.Done)-100):] // as many as can be in doubt at once
		return w
	},
	Reply:         func(w Wallet, _ Deposit, _ []Deposited) int { return w.Balance },
	SnapshotEvery: 100,
}

// A command is sent again after ErrUnknown, and counts once.
func Example_unknown() {
	ctx := context.Background()
	store := newHooked()
	store.write = func(_ context.Context, _ written, next func() error) error {
		_ = next() // what was sent is stored, and every answer gets lost
		return &annals.Error{Op: "append", Kind: annals.ErrUnknown}
	}
	wallets, err := entity.New(store, wallet, entity.Options{WriteTimeout: 100 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}

	deposit := Deposit{ID: "d-1", Amount: 50}
	balance, err := wallets.Ask(ctx, "w-1", deposit)
	for errors.Is(err, annals.ErrUnknown) {
		fmt.Println("outcome unknown")
		store.heal()
		balance, err = wallets.Ask(ctx, "w-1", deposit)
	}
	fmt.Println(balance, err)
	// Output:
	// outcome unknown
	// 50 <nil>
}

// Two runtimes have the same entity in memory, and one of them was told that it is alone.
func ExampleOptions_singleOwner() {
	ctx := context.Background()
	store := memstore.New()
	here, err := entity.New(store, account, entity.Options{SingleOwner: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	there, err := entity.New(store, account, entity.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	const read = 0
	fmt.Println(here.Ask(ctx, "a-1", 5))
	fmt.Println(there.Ask(ctx, "a-1", 10))

	fmt.Println(here.Ask(ctx, "a-1", read))  // from memory, as a single owner may
	fmt.Println(there.Ask(ctx, "a-1", read)) // asks the store first
	// Output:
	// 5 <nil>
	// 15 <nil>
	// 5 <nil>
	// 15 <nil>
}

// Load shows the state without a command. Its number is an ETag: DoAt does nothing to an entity that has changed since.
func ExampleRuntime_Load() {
	ctx := context.Background()
	counters, err := entity.New(memstore.New(), counter, entity.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	added, err := counters.Do(ctx, "c-1", 5)
	fmt.Println(added.Reply, added.SeqNr, err)

	total, etag, err := counters.Load(ctx, "c-1")
	fmt.Println(total, etag, err)

	_, err = counters.DoAt(ctx, "c-1", etag, 2)
	fmt.Println(err)
	_, err = counters.DoAt(ctx, "c-1", etag, 2)
	fmt.Println(errors.Is(err, annals.ErrConflict))

	before, _, err := counters.LoadAt(ctx, "c-1", 1)
	fmt.Println(before, err)
	// Output:
	// 5 1 <nil>
	// 5 1 <nil>
	// <nil>
	// true
	// 5 <nil>
}

// requestLog prints each operation with the requests that it was done for.
type requestLog struct{}

type requestKey struct{}

func (requestLog) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (requestLog) End(ctx context.Context, c annals.Call, r annals.Result) {
	callers := annals.Callers(ctx)
	if callers == nil {
		callers = []context.Context{ctx} // one caller: its values are those of ctx
	}
	for _, caller := range callers {
		fmt.Println(c.Store, c.Op, c.ID, r.Events, "events for request", caller.Value(requestKey{}))
	}
}

func ExampleOptions_observer() {
	counters, err := entity.New(memstore.New(), counter, entity.Options{Observer: requestLog{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.WithValue(context.Background(), requestKey{}, "r-1")
	total, err := counters.Ask(ctx, "c-1", 5)
	fmt.Println(total, err)
	// Output:
	// entity load Counter|c-1 0 events for request r-1
	// entity write Counter|c-1 1 events for request r-1
	// entity ask Counter|c-1 0 events for request r-1
	// 5 <nil>
}

// Of a wallet the store keeps two snapshots and the events after the older one.
func ExampleOptions() {
	wallets, err := entity.New(memstore.New(), wallet, entity.Options{
		MaxEntities:   10_000,
		IdleAfter:     time.Minute,
		KeepSnapshots: 2,
		DeleteEvents:  true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	balance, err := wallets.Ask(context.Background(), "w-1", Deposit{"d-1", 50})
	fmt.Println(balance, err)
	// Output: 50 <nil>
}
