package projection_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// An entity that was forgotten and begins again is handed over whole, in one commit or in several, to a projection that goes on and to one
// that is started again.
func TestForgottenEntityBeginsAgain(t *testing.T) {
	t.Parallel()
	for _, commits := range []int{1, 3} {
		for _, restarted := range []bool{false, true} {
			for _, before := range []int{1, 3, 5} {
				t.Run(fmt.Sprintf("%d commits, restarted %t, %d events before", commits, restarted, before), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := memstore.New()
						var mu sync.Mutex
						var handled []annals.SeqNr
						follow := func() *Runner {
							return must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(_ context.Context, e envelope) error {
								mu.Lock()
								defer mu.Unlock()
								handled = append(handled, e.SeqNr)
								return nil
							}, Options{Ranges: 1, Logger: silent}))
						}
						first := follow()
						if !restarted {
							running(t, first)
						}
						add(t, s, 1, 1, before)
						if time.Sleep(time.Minute); restarted {
							catchUp(t, first)
						}
						if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
							t.Fatal(err)
						}
						if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1"}); !done || err != nil {
							t.Fatal(done, err)
						}
						mu.Lock()
						handled = nil
						mu.Unlock()
						for range commits {
							add(t, s, 1, 1, 3/commits)
						}
						if time.Sleep(time.Minute); restarted {
							catchUp(t, follow())
						}
						mu.Lock()
						defer mu.Unlock()
						if got := fmt.Sprint(handled); got != "[1 2 3]" {
							t.Errorf("handed over %s of [1 2 3]", got)
						}
					})
				})
			}
		}
	}
}
