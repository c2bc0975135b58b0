package aggregate

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
)

// A repository keeps nothing of an entity whose commands meet no conflicts, and for some seconds only of one whose commands do.
func TestLinesAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		overtaken := make(chan struct{})
		r, err := New(memstore.New(), behavior.EventSourced[int, int, int, int]{
			Type: "Counter",
			Decide: func(_, add int) ([]int, error) {
				if add == 2 {
					<-overtaken
				}
				return []int{add}, nil
			},
			Evolve: func(total, added int) int { return total + added },
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(add int) {
			if _, err := r.Ask(t.Context(), "a", add); err != nil {
				t.Error(err)
			}
		}
		lines := func(want int, when string) {
			t.Helper()
			r.lines.mu.Lock()
			defer r.lines.mu.Unlock()
			if n := len(r.lines.of); n != want {
				t.Errorf("%d lines %s", n, when)
			}
		}
		for range 10 {
			ask(1)
		}
		lines(0, "without a conflict")
		var wg sync.WaitGroup
		wg.Go(func() { ask(2) })
		synctest.Wait()
		ask(1)
		close(overtaken)
		wg.Wait()
		lines(1, "after a conflict")
		time.Sleep(keepLine - 1)
		ask(1)
		time.Sleep(keepLine - 1)
		lines(1, "while commands come")
		time.Sleep(time.Minute)
		lines(0, "after a minute")
	})
}
