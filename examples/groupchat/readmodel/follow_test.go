package readmodel

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/projection"
)

// Servers come and go while events are written: the rows are still the fold of the events.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		options := projection.Options{Lease: 100 * time.Millisecond, BatchSize: 7, Logger: slog.New(slog.DiscardHandler)}
		random := random.New(t)
		ctx, stop := context.WithCancel(t.Context())
		var servers sync.WaitGroup
		defer servers.Wait()
		defer stop()
		for range 3 {
			servers.Go(func() {
				for ctx.Err() == nil {
					life, end := context.WithTimeout(ctx, 1+random.Below(100*time.Millisecond))
					if err := m.Run(life, in, options); err != nil {
						t.Error(err)
					}
					end()
				}
			})
		}
		chatter(t, in, 200)
		if err := m.CatchUp(t.Context(), in, options); err != nil {
			t.Fatal(err)
		}
		total, err := m.Compare(t.Context(), in)
		if err != nil || total.Messages == 0 {
			t.Errorf("%+v, %v", total, err)
		}
	})
}
