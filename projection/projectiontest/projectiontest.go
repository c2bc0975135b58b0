// Package projectiontest tests the handlers of projections. It has events for a Runner to follow, and a store that makes the Runner handle
// each event twice, so that a test finds a handler which counts on being called once.
package projectiontest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// Journal has the events of a test, in memory. It is for one goroutine.
type Journal[E any] struct {
	t     testing.TB
	store *memstore.Store
	codec codec.Codec[E]
}

// NewJournal returns an empty Journal. A fault in what follows ends the test t.
func NewJournal[E any](t testing.TB, c codec.Codec[E]) *Journal[E] {
	return &Journal[E]{t, memstore.New(), c}
}

// Source is all events of j, for a Runner. Set Type or Tag to follow a part of them.
func (j *Journal[E]) Source() projection.Source[E] {
	return projection.Source[E]{Store: j.store, Codec: j.codec}
}

// Append appends an event for each of values to the entity id. They get the next numbers and the time of the clock. Events with tags, metadata
// or another time are appended to the Store of Source.
func (j *Journal[E]) Append(id annals.PersistenceID, values ...E) {
	j.t.Helper()
	ctx := context.WithoutCancel(j.t.Context())
	for _, v := range values {
		after, err := j.store.Journal().LastSeqNr(ctx, id)
		var e annals.NewEvent
		if err == nil {
			e.Payload, err = j.codec.Encode(v)
		}
		if err == nil {
			_, err = j.store.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{e}})
		}
		if err != nil {
			j.t.Fatalf("append event %d of %s: %v", after+1, id, err)
		}
	}
}

// CatchUp calls r.CatchUp. An error ends the test, and so does a Runner that has not caught up after a minute, because it handles an event
// that fails again and again: with an Options.OnError that returns projection.Stop the test ends at once.
func CatchUp(t testing.TB, r *projection.Runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
}

// Reset takes the projection of r back to its beginning and calls CatchUp: each event that was handled before is handed over with
// Envelope.Rebuilding. It calls CatchUp before, too, so that r has run.
func Reset(t testing.TB, r *projection.Runner) {
	t.Helper()
	CatchUp(t, r)
	if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
		t.Fatal(err)
	}
	CatchUp(t, r)
}

// Redeliver returns s, but so that a Runner which saves its position in it handles each event twice: of the saves of each range with events,
// every other one fails. A handler of ExactlyOnce must write to its transaction only, which is undone with the save. A handler of AtLeastOnce
// must not mind an event that it has handled before.
func Redeliver[T any](s projection.TxStore[T]) projection.TxStore[T] {
	var mu sync.Mutex
	type saver struct {
		projection string
		slices     annals.SliceRange
	}
	due := map[saver]bool{} // the next save with events succeeds
	fails := func(p *annals.Progress) bool {
		mu.Lock()
		defer mu.Unlock()
		of := saver{p.Projection, p.Slices}
		due[of] = !due[of]
		return due[of]
	}
	return faulty.NewTx(s, func(_ context.Context, c *faulty.Call, run func() error) error {
		if p, ok := c.Arg.(*annals.Progress); ok && len(p.Offsets) > 0 && fails(p) {
			return &annals.Error{Op: c.Op, Kind: annals.ErrUnavailable, Err: errors.New("projectiontest.Redeliver lets this save fail")}
		}
		return run()
	})
}
