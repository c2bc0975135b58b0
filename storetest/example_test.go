package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/storetest"
)

// Store keeps events in memory, and nothing else: all other operations answer ErrUnsupported.
type Store struct{ *driver.Store }

// Options of a Store. The zero Options work.
type Options struct {
	Observer annals.Observer
}

// Open returns an empty store.
func Open(o Options) *Store {
	s := &Store{}
	s.Store = driver.New(&backend{Store: driver.Unsupported(), streams: map[annals.PersistenceID]*stream{}}, driver.Options{Name: "example", Self: s, Observer: o.Observer})
	return s
}

// backend is the driver.Driver.
type backend struct {
	annals.Store // driver.Unsupported: the contracts that the backend does not have
	mu           sync.Mutex
	streams      map[annals.PersistenceID]*stream
}

type stream struct {
	last   annals.SeqNr
	events []annals.Event                // replaced by deletes, never changed in place: replays keep what they saw
	writes map[annals.SeqNr]acknowledged // by After; they stay when the events are deleted
}

type acknowledged struct {
	id      annals.WriteID
	receipt annals.Receipt
}

// Capabilities are the claims that storetest checks.
func (b *backend) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, Tags: true, Metadata: true, Times: true, Repeatable: true, FenceAfterDelete: true,
		Limits: annals.Limits{MaxEvents: 1000, MaxBytes: 1 << 20, MaxIDBytes: 1000}}
}

func (b *backend) Journal() annals.Journal { return journal{b} }

// Fault translates the errors of a client or server. This backend has neither.
func (b *backend) Fault(err error) error {
	return &annals.Error{Kind: annals.ErrUnavailable, Err: err}
}

type journal struct{ *backend }

// lock returns the stream of id, new or old, for the caller to read and write until it calls unlock.
func (j journal) lock(id annals.PersistenceID) (st *stream, unlock func()) {
	j.mu.Lock()
	if j.streams[id] == nil {
		j.streams[id] = &stream{writes: map[annals.SeqNr]acknowledged{}}
	}
	return j.streams[id], j.mu.Unlock
}

func (j journal) Append(_ context.Context, c annals.Commit) (annals.Receipt, error) {
	st, unlock := j.lock(c.ID)
	defer unlock()
	if st.last != c.After {
		if w, ok := st.writes[c.After]; ok && w.id == c.WriteID { // the commit was stored before
			w.receipt.Repeated = true
			return w.receipt, nil
		}
		return annals.Receipt{}, &annals.Error{After: c.After, Last: st.last, Kind: annals.ErrConflict}
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if n := len(st.events); n > 0 && now.Before(st.events[n-1].Time) {
		now = st.events[n-1].Time // clocks may be set back; times of an entity do not go down
	}
	for _, e := range c.Events {
		st.last++
		st.events = append(st.events, annals.Event{ID: c.ID, SeqNr: st.last, Time: now, Payload: e.Payload,
			Tags: slices.Clone(e.Tags), Metadata: e.Metadata, Adapter: e.Adapter, WriteID: c.WriteID})
	}
	receipt := annals.Receipt{SeqNr: st.last, Time: now}
	st.writes[c.After] = acknowledged{c.WriteID, receipt}
	return receipt, nil
}

func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		var found []annals.Event
		err := driver.Fetch(ctx, func(context.Context) error { // the lock is released before the caller's code runs
			st, unlock := j.lock(id)
			defer unlock()
			found = st.events
			return nil
		})
		if err != nil {
			yield(annals.Event{}, err)
			return
		}
		for _, e := range found {
			if from <= e.SeqNr && e.SeqNr <= to && !yield(e, nil) {
				return
			}
		}
	}
}

func (j journal) LastSeqNr(_ context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	st, unlock := j.lock(id)
	defer unlock()
	return st.last, nil
}

func (j journal) DeleteTo(_ context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	st, unlock := j.lock(id)
	defer unlock()
	deleted := func(e annals.Event) bool { return e.SeqNr <= to }
	st.events = slices.DeleteFunc(slices.Clone(st.events), deleted) // last and writes stay: numbers are not given out again
	return nil
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		Open:         func(testing.TB) annals.Store { return Open(Options{}) },
		OpenObserved: func(_ testing.TB, o annals.Observer) annals.Store { return Open(Options{Observer: o}) },
	})
}

// Of two writers after the same number the second one is refused.
func Example() {
	ctx, s := context.Background(), Open(Options{})
	c := annals.Commit{ID: "Cart|7", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31, Manifest: "Added", Data: []byte(`{"sku":"x"}`)}}}, WriteID: annals.NewWriteID()}
	_, first := s.Journal().Append(ctx, c)
	c.WriteID = annals.NewWriteID()
	_, second := s.Journal().Append(ctx, c)
	last, _ := ability.Recover(ctx, s, "Cart|7", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	fmt.Println(first, errors.Is(second, annals.ErrConflict), last)
	// Output: <nil> true 1
}
