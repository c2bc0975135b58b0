// Package late has a store in memory in which events and states become visible to queries late and in another order than that of their
// Offset, for tests of what follows a store.
package late

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/memstore"
)

// Options of a Store. The zero Options work.
type Options struct {
	Seed     uint64        // of what is random
	Lateness time.Duration // is claimed; 0 = 2 s
	Skew     time.Duration // clocks of writers are at most so much before or after the store's, and step back; at most half of Lateness
	Grain    time.Duration // times are multiples of it, so that many are equal; 0 = 1 µs; at most a quarter of Lateness
	// Fixed makes the watermark as old as Lateness allows, as DynamoDB's is. Otherwise it is that of the oldest event that is not visible
	// yet, as PostgreSQL's is, and steps back now and then.
	Fixed bool
	// Delay returns how long after its write event n, counted from 0 in the order of the writes, becomes visible to queries. It is at most
	// Lateness. nil is at random.
	Delay func(n int) time.Duration
	// Fault is called before each read, with its operation as in annals.Error.Op, and before each value of a query or replay, with
	// "next value". When it returns an error, that is the result. It may be called from many goroutines at once. It may be nil.
	Fault func(op string) error
}

// Store is a memstore with Lateness. Every event of a commit becomes visible to queries by itself, at a random time; the journal has it at
// once. Times of one entity never go down. It is a Transactor, and no Watcher: see Watched.
type Store struct {
	annals.Store
	mem      *memstore.Store
	faulty   *faulty.Store
	o        Options
	watchers watchers.Set

	mu     sync.Mutex
	random *random.Source
	writes map[annals.WriteID]write
	states map[stateKey]write
	latest map[annals.PersistenceID]time.Time // of the entity's events
	reads  map[string]int
	events int // that were written
}

type stateKey struct {
	id       annals.PersistenceID
	revision annals.SeqNr
}

// write is a commit or a revision of a state.
type write struct {
	after   annals.SeqNr
	times   []time.Time // of its events
	visible []time.Time // since when each of them is found
}

// New returns an empty store.
func New(o Options) *Store {
	o.Lateness = cmp.Or(o.Lateness, 2*time.Second)
	o.Grain = cmp.Or(o.Grain, time.Microsecond)
	if o.Fault == nil {
		o.Fault = func(string) error { return nil }
	}
	mem := memstore.New()
	s := &Store{Store: mem, mem: mem, o: o, random: random.Of(o.Seed), writes: map[annals.WriteID]write{},
		states: map[stateKey]write{}, latest: map[annals.PersistenceID]time.Time{}, reads: map[string]int{}}
	s.faulty = &faulty.Store{Store: contracts{mem, s}, Around: s.around}
	return s
}

// Watched is a Store that is also an ability.Watcher: it signals each write, and when something becomes visible.
type Watched struct{ *Store }

// Watch is ability.Watcher.
func (s Watched) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	return s.watchers.Watch(ctx, f.Slices), nil
}

// Capabilities are those of memstore, with the Lateness.
func (s *Store) Capabilities() annals.Capabilities {
	c := s.mem.Capabilities()
	c.Lateness = s.o.Lateness
	return c
}

// InTx is ability.Transactor. What is written in the transaction is visible at once.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx memstore.Tx, in annals.Store) error) error {
	return s.mem.InTx(ctx, fn)
}

// Forget is ability.Forgetter. The times of an entity that begins again do not depend on those before.
func (s *Store) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	forgetter, err := ability.Of[ability.Forgetter](s.mem)
	if err != nil {
		return false, err
	}
	done, err := forgetter.Forget(ctx, f)
	if done && err == nil && !f.DryRun {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.latest, f.ID)
		maps.DeleteFunc(s.states, func(key stateKey, _ write) bool { return key.id == f.ID })
	}
	return done, err
}

// Close ends all watches, too.
func (s *Store) Close() error {
	s.watchers.Close()
	return s.mem.Close()
}

// Reads returns how many reads of each operation, as in annals.Error.Op, there were since the last call.
func (s *Store) Reads() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = map[string]int{}
	return reads
}

// around counts reads, and calls Fault for them.
func (s *Store) around(_ context.Context, c *faulty.Call, run func() error) error {
	if c.Writes || c.Op == "get state" {
		return run()
	}
	s.mu.Lock()
	s.reads[c.Op]++
	s.mu.Unlock()
	if err := s.o.Fault(c.Op); err != nil {
		return err
	}
	c.Each = func(any) error { return s.o.Fault("next value") }
	return run()
}

// begin registers a write of n events, before it is stored.
func (s *Store) begin(id annals.PersistenceID, after annals.SeqNr, n int) write {
	w := write{after: after}
	now := time.Now()
	for range n {
		t := now
		if s.o.Skew > 0 {
			t = t.Add(s.random.Below(2*s.o.Skew) - s.o.Skew)
		}
		t = t.Truncate(s.o.Grain)
		if last := s.latest[id]; last.After(t) {
			t = last
		}
		s.latest[id] = t
		visible := now
		if most := t.Add(s.o.Lateness).Sub(now); s.o.Delay != nil {
			visible = now.Add(s.o.Delay(s.events))
		} else if most > 0 {
			switch s.random.IntN(4) {
			case 0:
				visible = now.Add(s.random.Below(most))
			case 1:
				visible = now.Add(s.random.Below(most/50 + 1))
			}
		}
		s.events++
		w.times, w.visible = append(w.times, t), append(w.visible, visible)
	}
	return w
}

// wake signals w, of id, now and when its events become visible.
func (s *Store) wake(id annals.PersistenceID, w write) {
	s.watchers.Wake(watchers.SignalOf(id))
	for _, at := range w.visible {
		if d := time.Until(at); d > 0 {
			time.AfterFunc(d, func() { s.watchers.Wake(watchers.SignalOf(id)) })
		}
	}
}

// Journal is annals.Store.
func (s *Store) Journal() annals.Journal { return s.faulty.Journal() }

// States is annals.Store.
func (s *Store) States() annals.StateStore { return s.faulty.States() }

// Query is annals.Store.
func (s *Store) Query() annals.Query { return s.faulty.Query() }

// contracts is the Store without Fault.
type contracts struct {
	annals.Store
	s *Store
}

func (c contracts) Journal() annals.Journal   { return journal{c.Store.Journal(), c.s} }
func (c contracts) States() annals.StateStore { return states{c.Store.States(), c.s} }
func (c contracts) Query() annals.Query       { return query{c.Store.Query(), c.s} }

type journal struct {
	annals.Journal
	s *Store
}

func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if c.WriteID == (annals.WriteID{}) {
		c.WriteID = annals.NewWriteID()
	}
	j.s.mu.Lock()
	w, again := j.s.writes[c.WriteID]
	if !again {
		w = j.s.begin(c.ID, c.After, len(c.Events))
		j.s.writes[c.WriteID] = w
	}
	j.s.mu.Unlock()
	events := make([]annals.NewEvent, len(c.Events))
	for i, e := range c.Events {
		if e.Time.IsZero() && i < len(w.times) {
			e.Time = w.times[i]
		}
		events[i] = e
	}
	c.Events = events
	r, err := j.Journal.Append(ctx, c)
	if err != nil && !again {
		j.s.mu.Lock()
		delete(j.s.writes, c.WriteID)
		j.s.mu.Unlock()
	}
	if err == nil {
		j.s.wake(c.ID, w)
	}
	return r, err
}

type states struct {
	annals.StateStore
	s *Store
}

func (x states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return x.late(w, func() (annals.Receipt, error) { return x.StateStore.Put(ctx, w) })
}

func (x states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return x.late(w, func() (annals.Receipt, error) { return x.StateStore.Delete(ctx, w) })
}

func (x states) late(w annals.StateWrite, do func() (annals.Receipt, error)) (annals.Receipt, error) {
	key := stateKey{w.ID, w.After + 1}
	now := time.Now() // memstore's times are not before it
	x.s.mu.Lock()
	if _, again := x.s.states[key]; !again {
		visible := now
		if x.s.random.OneIn(2) {
			visible = now.Add(x.s.random.Below(x.s.o.Lateness))
		}
		x.s.states[key] = write{times: []time.Time{now}, visible: []time.Time{visible}}
	}
	late := x.s.states[key]
	x.s.mu.Unlock()
	r, err := do()
	if err == nil {
		x.s.wake(w.ID, late)
	}
	return r, err
}

type query struct {
	annals.Query
	s *Store
}

func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	limit := f.Limit
	f.Limit = 0
	return visible(q.Query.Events(ctx, f), limit, q.s.hiddenEvents())
}

func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	limit := f.Limit
	f.Limit = 0
	return visible(q.Query.States(ctx, f), limit, q.s.hiddenStates())
}

func (q query) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	for e, err := range visible(q.Query.Events(ctx, f), 0, q.s.hiddenEvents()) {
		if err != nil {
			return annals.Offset{}, err
		}
		newest = e.Offset()
	}
	return newest, nil
}

func (q query) Watermark(context.Context) (time.Time, error) {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	now := time.Now()
	earliest := now.Add(-q.s.o.Lateness)
	if q.s.o.Fixed {
		return earliest.UTC().Truncate(time.Microsecond), nil
	}
	at := now.Add(-q.s.o.Skew - q.s.o.Grain) // the earliest time of an event that is written from now on
	hidden := func(w write) {
		for i, since := range w.visible {
			if since.After(now) && w.times[i].Before(at) {
				at = w.times[i]
			}
		}
	}
	for _, w := range q.s.writes {
		hidden(w)
	}
	for _, w := range q.s.states {
		hidden(w)
	}
	if q.s.random.OneIn(4) {
		at = at.Add(-q.s.random.Below(q.s.o.Lateness))
	}
	if at.Before(earliest) {
		at = earliest
	}
	return at.UTC().Truncate(time.Microsecond), nil
}

// hiddenEvents returns whether an event is not visible yet to a query that begins now.
func (s *Store) hiddenEvents() func(annals.Event) bool {
	now := time.Now()
	return func(e annals.Event) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		w, ok := s.writes[e.WriteID]
		i := int(e.SeqNr-w.after) - 1
		return ok && i < len(w.visible) && w.visible[i].After(now)
	}
}

func (s *Store) hiddenStates() func(annals.State) bool {
	now := time.Now()
	return func(x annals.State) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		w, ok := s.states[stateKey{x.ID, x.Revision}]
		return ok && w.visible[0].After(now)
	}
}

// visible yields the first limit values that are not hidden; 0 is no limit.
func visible[T any](all iter.Seq2[T, error], limit int, hidden func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for v, err := range all {
			if err == nil && hidden(v) {
				continue
			}
			if n++; !yield(v, err) || n == limit {
				return
			}
		}
	}
}

// ErrInjected is an error for Options.Fault.
var ErrInjected error = &annals.Error{Op: "injected", Kind: annals.ErrUnavailable, Err: errors.New("injected by the test")}
