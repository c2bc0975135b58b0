// Package followtest checks on a store, to which others write, that followers get every event, once and in the order of each entity: feeds
// and projections.
package followtest

import (
	"testing"
	"time"

	"github.com/annals-go/annals"
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
	b, err := w.feed.Next(t.Context(), 50)
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
