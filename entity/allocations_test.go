package entity_test

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// silentObserver does nothing.
type silentObserver struct{}

func (silentObserver) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }
func (silentObserver) AlwaysReturns()                                           {}
func (silentObserver) End(context.Context, annals.Call, annals.Result)          {}

// Without an Observer nothing is allocated for one.
func TestAllocationsWithoutAnObserver(t *testing.T) {
	ask := func(o annals.Observer) float64 {
		rt, err := entity.New(memstore.New(), account, entity.Options{SingleOwner: true, Observer: o})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rt.Shutdown(context.Background()) }()
		return testing.AllocsPerRun(2000, func() {
			if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
				t.Fatal(err)
			}
		})
	}
	off, on := ask(nil), ask(silentObserver{})
	encoding := testing.AllocsPerRun(2000, func() { // depends on the release of Go
		if _, err := account.Events.Encode(1); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations without an Observer, %v with one, %v of the codec", off, on, encoding)
	if most := 3 + encoding; off > most || on <= off {
		t.Errorf("%v allocations without an Observer, want at most %v; %v with one", off, most, on)
	}
}
