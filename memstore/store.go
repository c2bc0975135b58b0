// Package memstore is the reference store: everything in memory, one lock, nothing clever. It is the test double for
// domain code, the model that storetest compares other stores with, and the store to read before writing one.
//
// Nothing survives the process.
package memstore

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
)

// Store is an annals.Store and an annals.Transactor[Tx]. The zero Store is empty and ready to use.
type Store struct {
	annals.Unsupported
	mu     sync.Mutex
	closed bool
	data   data
	before atomic.Pointer[data] // while a transaction runs, what was there before: nobody changes it
}

// New returns an empty store.
func New() *Store { return &Store{} }

// Options of a Store: there are none. They exist so that memstore opens by URL like every store.
type Options struct{}

// Journal is the store's journal.
func (s *Store) Journal() annals.Journal { return view{s: s} }

// Snapshots is the store's snapshot store; it keeps many snapshots an entity.
func (s *Store) Snapshots() annals.SnapshotStore { return snapshots{view{s: s}} }

// States is the store's durable states.
func (s *Store) States() annals.StateStore { return states{view{s: s}} }

// Query reads across entities. Each call sees the store as of its beginning.
func (s *Store) Query() annals.Query { return query{view{s: s}} }

// Offsets is the store's offset store.
func (s *Store) Offsets() annals.OffsetStore { return offsets{view{s: s}} }

// Capabilities are all but EventTimes: times are the store's, so that the feed is ordered.
func (s *Store) Capabilities() annals.Capabilities {
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, Offsets: true,
		CommitSnapshot: true, ManySnapshots: true, Tags: true, Metadata: true, TagQueries: true, StateEvents: true,
		IdempotentState: true, OrderedFeed: true, Repeatable: true, FenceAfterDelete: true, Forgets: true,
	}
}

// Close makes later calls answer ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// data is all that is stored. Its slices are replaced or appended to, never written in place: readers and
// transactions keep what they saw.
type data struct {
	clock     time.Time
	streams   map[annals.PersistenceID]stream
	snapshots map[annals.PersistenceID][]annals.Snapshot
	states    map[annals.PersistenceID]stateRow
	offsets   map[string]progress
}

func (d *data) clone() data {
	c := data{d.clock, maps.Clone(d.streams), maps.Clone(d.snapshots), maps.Clone(d.states), maps.Clone(d.offsets)}
	for name, p := range c.offsets {
		c.offsets[name] = progress{maps.Clone(p.offsets), p.epochs}
	}
	return c
}

// now is the time of a write, above every earlier one: followers never see an offset too late.
func (d *data) now() time.Time {
	t := time.Now().UTC().Truncate(time.Microsecond)
	if !t.After(d.clock) {
		t = d.clock.Add(time.Microsecond)
	}
	d.clock = t
	return t
}

// view is a store seen from outside, or from inside a transaction, which holds the lock.
type view struct {
	s  *Store
	tx *transaction // nil outside
}

// begin locks the data for one operation that reads. The caller unlocks when the error is nil. A read of the outer store within a
// transaction, which holds the lock, gets what was there before.
func (v view) begin(ctx context.Context, op string, id annals.PersistenceID) (d *data, unlock func(), err error) {
	if v.tx == nil && annals.ContextInTx(ctx, v.s) {
		if before := v.s.before.Load(); before != nil && ctx.Err() == nil {
			return before, func() {}, nil
		}
	}
	return v.lock(ctx, op, id)
}

// beginWrite is begin for an operation that writes.
func (v view) beginWrite(ctx context.Context, op string, id annals.PersistenceID) (d *data, unlock func(), err error) {
	if v.tx == nil && annals.ContextInTx(ctx, v.s) {
		return nil, nil, &annals.Error{Op: op, ID: id, Kind: annals.ErrInvalid, Err: errOutside}
	}
	return v.lock(ctx, op, id)
}

func (v view) lock(ctx context.Context, op string, id annals.PersistenceID) (d *data, unlock func(), err error) {
	refuse := func(kind, err error) (*data, func(), error) {
		return nil, nil, &annals.Error{Op: op, ID: id, Kind: kind, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return refuse(annals.ErrUnavailable, err)
	}
	if v.tx != nil {
		if v.tx.done {
			return refuse(annals.ErrClosed, errTxDone)
		}
		return &v.s.data, func() {}, nil
	}
	v.s.mu.Lock()
	if v.s.closed {
		v.s.mu.Unlock()
		return refuse(annals.ErrClosed, nil)
	}
	return &v.s.data, v.s.mu.Unlock, nil
}
