package entity

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
)

// An idle entity needs the same memory, however many commands have waited for it before.
func TestIdleEntityIsSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt, err := New(memstore.New(), behavior.EventSourced[int, int, int, int]{
			Type:   "Counter",
			Decide: func(_, add int) ([]int, error) { return []int{add, add, add}, nil },
			Evolve: func(total, added int) int { return total + added },
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		e := rt.live["a"]
		if e == nil || !e.idle.listed || e.next != nil || e.current != nil || cap(e.mailbox.commands) > 4 {
			t.Errorf("an idle entity keeps %+v", e)
		}
		_ = rt.Shutdown(t.Context())
	})
}
