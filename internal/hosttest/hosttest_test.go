package hosttest

import (
	"context"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	s := slow()
	TwoRuntimes(t, s, s)
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	Accounts(t, memstore.New())
}

func TestTimers(t *testing.T) {
	t.Parallel()
	s := slow()
	Timers(t, s, s)
}

// Runtimes that do not look at the store before they answer are found out.
func TestRuntimesThatDoNotLook(t *testing.T) {
	t.Parallel()
	for name, start := range kinds(memstore.New().Capabilities()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for r := range random.Rounds(t, 20) {
				s := slow()
				calls, err := play(t.Context(), r, start, s, s, entity.Options{SingleOwner: true})
				if err != nil {
					t.Fatal(err)
				}
				if !linearizable(calls) {
					return
				}
			}
			t.Error("20 histories of runtimes that answer from memory are linearizable")
		})
	}
}

// slow is a memstore with a delay, as over a network: other goroutines run while a call is under way.
func slow() annals.Store {
	pause := func() {
		for range 20 {
			runtime.Gosched()
		}
	}
	return &faulty.Store{Store: memstore.New(), Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		switch c.Op {
		case "append", "last number", "put state", "get state":
			pause()
			defer pause()
		case "replay":
			pause()
		}
		return run()
	}}
}
