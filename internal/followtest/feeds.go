// Package followtest checks on a store, to which others write, that followers get every event, once and in the order of each entity: feeds
// and projections.
package followtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/query"
)

// Type is that of the entities that are followed.
const Type = "Followed"

// Worker follows the events of entities of Type. It saves its position in the store with each batch.
type Worker struct {
	Store annals.Store
	Seen  map[annals.PersistenceID]annals.SeqNr // the last number of each entity
	feed  *query.Feed[annals.Event]
}

// NewWorker returns a Worker that has seen nothing.
func NewWorker(s annals.Store) *Worker {
	return &Worker{Store: s, Seen: map[annals.PersistenceID]annals.SeqNr{}}
}

// Begin goes on from the saved position, as a new process does. It must be called before Next.
func (w *Worker) Begin(t *testing.T) {
	t.Helper()
	from, err := w.Store.Offsets().Load(t.Context(), "followtest", annals.SliceRange{})
	if err != nil {
		t.Fatal(err)
	}
	o := query.Options{
		Poll: 300 * time.Millisecond,
		OnSkip: func(id annals.PersistenceID, from, to annals.SeqNr) {
			t.Errorf("%s: numbers %d to %d were skipped", id, from, to)
		},
	}
	if w.feed, err = query.NewFeed(w.Store, annals.Filter{Type: Type}, from[0], o); err != nil {
		t.Fatal(err)
	}
}

// Next handles a batch. No event may come twice or out of order.
func (w *Worker) Next(t *testing.T) query.Batch[annals.Event] {
	t.Helper()
	return w.nextBefore(t, t.Context())
}

// nextBefore is Next until ctx ends.
func (w *Worker) nextBefore(t *testing.T, ctx context.Context) query.Batch[annals.Event] { //nolint:revive // t first, as in all helpers
	t.Helper()
	b, err := w.feed.Next(ctx, 50)
	if err != nil && ctx.Err() != nil && t.Context().Err() == nil {
		return query.Batch[annals.Event]{}
	}
	if err != nil {
		t.Fatal(err)
	}
	p := annals.Progress{Projection: "followtest", Through: b.Through, Once: true}
	for _, e := range b.Items {
		if e.SeqNr != w.Seen[e.ID]+1 {
			t.Errorf("%s: number %d after %d", e.ID, e.SeqNr, w.Seen[e.ID])
		}
		w.Seen[e.ID] = e.SeqNr
		p.Offsets = append(p.Offsets, e.Offset())
	}
	if err := w.Store.Offsets().Save(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return b
}

// Writer appends to entities of its own.
type Writer struct {
	Random *random.Source
	name   int
	last   map[annals.PersistenceID]annals.SeqNr
	total  *atomic.Int64
}

// Append appends one or two events to an entity, in s.
func (w *Writer) Append(ctx context.Context, s annals.Store) error {
	id := annals.NewPersistenceID(Type, fmt.Sprint(w.name, "-", w.Random.IntN(4)))
	c := annals.Commit{ID: id, After: w.last[id]}
	for range 1 + w.Random.IntN(2) {
		c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 20, Data: []byte("followed")}})
	}
	r, err := s.Journal().Append(ctx, c)
	if err != nil {
		return err
	}
	w.last[id] = r.SeqNr
	w.total.Add(int64(len(c.Events)))
	return nil
}

// Feeds calls write for several writers at the same time, and follows s with a Worker that begins anew every few batches, until it has handled
// all events.
func Feeds(t *testing.T, s annals.Store, write func(ctx context.Context, w *Writer) error) {
	t.Helper()
	const writers = 6
	r := random.New(t)
	var total atomic.Int64
	var working sync.WaitGroup
	errs := make([]error, writers)
	writing, end := context.WithCancel(t.Context())
	for i := range writers {
		working.Go(func() {
			errs[i] = write(t.Context(), &Writer{r.Child(), i, map[annals.PersistenceID]annals.SeqNr{}, &total})
		})
	}
	go func() { working.Wait(); end() }()
	w, n := NewWorker(s), int64(0)
	for batches := 0; writing.Err() == nil || n < total.Load(); batches++ {
		if batches%7 == 0 {
			w.Begin(t)
		}
		if writing.Err() == nil {
			n += int64(len(w.nextBefore(t, writing).Items))
		} else {
			n += int64(len(w.Next(t).Items))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	for id, n := range w.Seen {
		if last, err := s.Journal().LastSeqNr(t.Context(), id); err != nil || n != last {
			t.Errorf("%s: %d of %d events, %v", id, n, last, err)
		}
	}
}
