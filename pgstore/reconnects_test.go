package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// While the server is down, many callers use the store, and a watch is open. The store tries to connect from time to time, returns the
// cause to every caller, and works as soon as the server is back.
func TestServerIsDown(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true})
	signals, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	<-signals // it listens
	appendOne(t, s, "T|0", 0)
	restart := stop(p)
	const down = 600 * time.Millisecond
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), down)
	defer cancel()
	var calls atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c := annals.Commit{ID: annals.PersistenceID(fmt.Sprintf("T|%d", i+1)), Events: []annals.NewEvent{{Payload: text("x")}}}
			for ctx.Err() == nil || calls.Load() < 400 { // also on a busy machine
				_, err := s.Journal().Append(t.Context(), c)
				if i%2 == 0 {
					_, err = s.States().Put(t.Context(), annals.StateWrite{ID: c.ID, Payload: text("x")})
				}
				if calls.Add(1); !annals.SafeToRetry(err) {
					t.Errorf("got %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	attempts := restart()
	most := 80 * int(1+time.Since(began)/down) // a call that was sent before the server was down may last for 30 seconds
	if attempts == 0 || attempts > most {
		t.Errorf("%d attempts to connect for %d calls, want some, and %d at most", attempts, calls.Load(), most)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := annals.Commit{ID: "T|0", After: 1, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{{Payload: text("x")}}}
	_, err = s.Journal().Append(ctx, c)
	for annals.SafeToRetry(err) && ctx.Err() == nil {
		_, err = s.Journal().Append(ctx, c)
	}
	if err != nil {
		t.Error(err)
	}
	for len(signals) > 0 {
		<-signals
	}
	<-signals // it listens again
}
