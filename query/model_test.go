package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/query"
)

// model is one run of writers and of a worker that follows them, saves its position after each batch, and crashes now and then.
type model struct {
	random   *random.Source
	lateness time.Duration
	store    *late.Store
	filter   annals.Filter
	deletes  bool
	lies     late.Lies // of the store to the worker

	batches []query.Batch[annals.Event] // that were saved
}

func newModel(r *random.Source) *model {
	m := &model{random: r}
	m.lateness = random.OneOf(r, 100*time.Millisecond, 2*time.Second, 30*time.Second)
	o := late.Options{Seed: r.Uint64(), Lateness: m.lateness, Fixed: r.OneIn(3),
		Skew: random.OneOf(r, 0, m.lateness/10, m.lateness/2), Grain: random.OneOf(r, time.Microsecond, m.lateness/20, m.lateness/4)}
	faults, n := r.Child(), random.OneOf(r, 0, 200, 20)
	o.Fault = func(string) error { // one between two values cuts a page there
		if faults.OneIn(n) {
			return late.ErrInjected
		}
		return nil
	}
	m.store = late.New(o)
	m.filter = annals.Filter{Type: random.OneOf(r, "", "T"), Slices: random.OneOf(r, annals.SliceRange{}, annals.SliceRange{From: 100, To: 800}), Tag: random.OneOf(r, "", "", "a")}
	m.deletes = r.OneIn(3)
	return m
}

// run returns what is wrong with what the worker saved.
func (m *model) run(ctx context.Context) error {
	var writers sync.WaitGroup
	for range 3 {
		own := m.random.Child()
		writers.Go(func() { m.write(ctx, own) })
	}
	following, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	ended.Go(func() {
		defer stop()
		writers.Wait()
		time.Sleep(10*m.lateness + 10*time.Second)
	})
	for following.Err() == nil {
		if err := m.work(following); err != nil {
			return err
		}
	}
	return m.check(ctx)
}

// write appends to a few entities, and to some that are new.
func (m *model) write(ctx context.Context, r *random.Source) {
	for round := range 60 {
		id := annals.NewPersistenceID(random.OneOf(r, "T", "T", "U"), strconv.Itoa(r.IntN(8)))
		if r.OneIn(4) {
			id += annals.PersistenceID(fmt.Sprint("-", r.IntN(3), "-", round))
		}
		last, err := m.store.Store.Journal().LastSeqNr(ctx, id)
		if err != nil {
			return
		}
		events := make([]annals.NewEvent, 1+r.IntN(4))
		for i := range events {
			events[i] = annals.NewEvent{Payload: annals.Payload{SerializerID: 1}, Tags: random.OneOf(r, nil, []string{"a"}, []string{"b", "a"}, []string{"b"})}
		}
		_, _ = m.store.Journal().Append(ctx, annals.Commit{ID: id, After: last, Events: events}) // a conflict of two writers is all right
		if m.deletes && r.OneIn(10) {
			_ = m.store.Journal().DeleteTo(ctx, id, last)
		}
		time.Sleep(r.Below(m.lateness / 3))
	}
}

// work is the life of one worker: it goes on from the saved position, until it crashes.
func (m *model) work(ctx context.Context) error {
	var store annals.Store = m.store
	switch watched := (late.Watched{Store: m.store}); m.random.IntN(4) {
	case 0, 1:
		store = watched
	case 2:
		store = misled{watched, m.random.Child()}
	}
	if m.lies != (late.Lies{}) {
		store = m.lies.In(m.store)
	}
	offsets := store.Offsets()
	positions, err := offsets.Load(ctx, "p", m.filter.Slices)
	if err != nil {
		return nil // ctx has ended
	}
	if len(positions) != 1 {
		return fmt.Errorf("%d positions", len(positions))
	}
	filter := m.filter
	filter.Slices = annals.SliceRange{}
	feed, err := query.NewFeed(store, filter, positions[0], query.Options{Window: random.OneOf(m.random, 0, 3, 20)})
	if err != nil {
		return err
	}
	for range m.random.IntN(random.OneOf(m.random, 1, 4, 200)) + 1 {
		most := random.OneOf(m.random, 1, 3, 100)
		b, err := feed.Next(ctx, most)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if len(b.Items) > most {
			return fmt.Errorf("%d events, want at most %d", len(b.Items), most)
		}
		if m.random.OneIn(10) {
			return nil // crashed before it saved
		}
		if m.random.OneIn(5) {
			time.Sleep(m.random.Below(m.lateness)) // a slow handler
		}
		p := annals.Progress{Projection: "p", Slices: m.filter.Slices, Through: b.Through, Once: true}
		for _, e := range b.Items {
			p.Offsets = append(p.Offsets, e.Offset())
		}
		if err := offsets.Save(context.WithoutCancel(ctx), p); err != nil {
			return fmt.Errorf("handed over twice: %w", err)
		}
		m.batches = append(m.batches, b)
	}
	return nil
}

// misled is a store whose signals are of any slices. Nothing may rest on them.
type misled struct {
	late.Watched
	random *random.Source
}

func (s misled) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	signals, err := s.Watched.Watch(ctx, f)
	wrong := make(chan annals.SliceRange, 1)
	go func() {
		defer close(wrong)
		for range signals {
			from := s.random.IntN(annals.SliceCount)
			select {
			case wrong <- annals.SliceRange{From: from, To: from + 1 + s.random.IntN(annals.SliceCount-from)}:
			case <-ctx.Done():
			}
		}
	}()
	return wrong, err
}

// check compares the batches with the journal.
func (m *model) check(ctx context.Context) error {
	type key struct {
		id annals.PersistenceID
		n  annals.SeqNr
	}
	in := map[key]int{} // the batch of each event
	last := map[annals.PersistenceID]annals.SeqNr{}
	var through annals.Offset
	for i, b := range m.batches {
		if b.Through.Compare(through) < 0 {
			return fmt.Errorf("batch %d: Through went back from %v to %v", i, through, b.Through)
		}
		through = b.Through
		for _, e := range b.Items {
			if last[e.ID] >= e.SeqNr {
				return fmt.Errorf("batch %d: %s number %d after %d", i, e.ID, e.SeqNr, last[e.ID])
			}
			last[e.ID] = e.SeqNr
			in[key{e.ID, e.SeqNr}] = i
			if f := m.filter; f.Type != "" && e.ID.Type() != f.Type || !f.Slices.Contains(e.ID.Slice()) || f.Tag != "" && !slices.Contains(e.Tags, f.Tag) {
				return fmt.Errorf("batch %d: %s number %d does not fit the filter", i, e.ID, e.SeqNr)
			}
		}
	}
	if len(m.batches) == 0 || !m.batches[len(m.batches)-1].CaughtUp {
		return errors.New("the worker did not catch up")
	}
	events := 0
	for e, err := range m.store.Store.Query().Events(ctx, m.filter) { // memstore's, without faults
		if err != nil {
			return err
		}
		events++
		batch, ok := in[key{e.ID, e.SeqNr}]
		if !ok {
			return fmt.Errorf("skipped %s number %d of %v", e.ID, e.SeqNr, e.Time)
		}
		first, _ := slices.BinarySearchFunc(m.batches, e.Offset(), func(b query.Batch[annals.Event], o annals.Offset) int { return b.Through.Compare(o) })
		if batch > first {
			return fmt.Errorf("batch %d said that everything through %v was handed over, but %s number %d of %v came in batch %d", first, m.batches[first].Through, e.ID, e.SeqNr, e.Time, batch)
		}
	}
	if events < 20 {
		return fmt.Errorf("only %d events", events)
	}
	return nil
}

// Whatever is late, in whatever order, wherever pages and batches end and workers crash: a worker gets each event once, those of an entity in order.
func TestFeedModel(t *testing.T) {
	t.Parallel()
	random.Each(t, modelRuns, func(t *testing.T, r *random.Source) {
		synctest.Test(t, func(t *testing.T) {
			if err := newModel(r).run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

const modelRuns = 100
