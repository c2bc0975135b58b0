package memstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/position"
	"github.com/annals-go/annals/internal/statetype"
	"github.com/annals-go/annals/internal/watchers"
)

// Options of a Store. The zero Options work.
type Options struct {
	// StateTypes describes, by entity type, states with columns or a change handler of their own. Table is ignored.
	StateTypes map[string]annals.StateType[Tx]
	// Observer is told of every call. It may be nil.
	Observer annals.Observer
}

// Store is an annals.Store and Transactor[Tx], and has the abilities that ability.Of returns. Watch signals every event and state.
// Subscriptions end with the process, and a new name begins with the first event. FindStates finds the states whose column has no value by nil.
// An open store is healthy. A type that embeds a *Store and has another Journal has the Recover of the Store still: see ability.Of.
type Store struct {
	*driver.Store
	backend *backend
}

var _ ability.Transactor[Tx] = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	s, _ := Open(Options{}) // the zero Options are valid
	return s
}

// Open returns an empty store. ErrInvalid says what is wrong with the StateTypes.
func Open(o Options) (*Store, error) {
	own, name := func(string) bool { return false }, func(column string) string { return column }
	if err := statetype.Faults(o.StateTypes, own, name, nil); err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	s := &Store{backend: &backend{types: o.StateTypes, data: newData(), writing: make(chan struct{}, 1), subscriptions: map[string]*subscription{}}}
	s.backend.self = s
	s.Store = driver.New(view{backend: s.backend}, driver.Options{Name: "memory", Self: s, Atomically: s.atomically, Observer: o.Observer})
	return s, nil
}

// backend is what a Store and its transactions share.
type backend struct {
	self     *Store
	types    map[string]annals.StateType[Tx]
	writing  chan struct{} // has an element while a write or a transaction is under way
	mu       sync.Mutex    // of all data, those of transactions too
	data     data
	watchers watchers.Set

	subscriptions map[string]*subscription // by name; mu guards them
}

// data is all that is stored. Its slices are replaced or appended to, never written in place: readers and transactions keep what they
// saw.
type data struct {
	clock     time.Time
	dated     watchers.Signal // what the clock gave times to in this layer
	streams   table[annals.PersistenceID, stream]
	snapshots table[annals.PersistenceID, []annals.Snapshot]
	states    table[annals.PersistenceID, stateRow]
	offsets   table[string, position.Projection]
	values    table[string, any] // of the user's own
}

func newData() data {
	return data{streams: newTable[annals.PersistenceID, stream](), snapshots: newTable[annals.PersistenceID, []annals.Snapshot](),
		states: newTable[annals.PersistenceID, stateRow](), offsets: newTable[string, position.Projection](), values: newTable[string, any]()}
}

// layer returns data for a transaction, or for a part of one: changes of it leave d alone.
func (d *data) layer() data {
	return data{d.clock, d.dated, d.streams.layer(), d.snapshots.layer(), d.states.layer(), d.offsets.layer(), d.values.layer()}
}

// merge makes the changes of a layer those of d.
func (d *data) merge(layer *data) {
	d.clock, d.dated = layer.clock, d.dated|layer.dated
	d.streams.merge(layer.streams)
	d.snapshots.merge(layer.snapshots)
	d.states.merge(layer.states)
	d.offsets.merge(layer.offsets)
	d.values.merge(layer.values)
}

// part makes sure that d shares no memory that is still written with a layer, which may go on being read.
func (d *data) part(layer *data) {
	for id := range layer.streams.changed {
		if st, ok := d.streams.find(id); ok {
			st.events, st.commits = slices.Clip(st.events), slices.Clip(st.commits)
			d.streams.set(id, st)
		}
	}
}

// now is the time of a write of an entity, above that of every earlier one: the feed is in order.
func (d *data) now(id annals.PersistenceID) time.Time {
	t := time.Now().UTC().Truncate(time.Microsecond)
	if !t.After(d.clock) {
		t = d.clock.Add(time.Microsecond)
	}
	d.clock = t
	d.dated |= watchers.SignalOf(id)
	return t
}

// view is the driver.Driver of a store, or of a store inside a transaction.
type view struct {
	*backend
	tx *transaction // nil outside of one
}

// Capabilities claim everything.
func (v view) Capabilities() annals.Capabilities {
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, IDQueries: true, Offsets: true,
		CommitSnapshot: true, ManySnapshots: true, Tags: true, Metadata: true, StateMetadata: true, Times: true, EventTimes: true, SnapshotQueries: true, TagQueries: true,
		DeletesStates: true, StateEvents: true, IdempotentState: true, Repeatable: true, FenceAfterDelete: true, GuardsReads: true,
	}
}

func (v view) Journal() annals.Journal         { return v }
func (v view) Snapshots() annals.SnapshotStore { return snapshots{v} }
func (v view) States() annals.StateStore       { return states{v} }
func (v view) Query() annals.Query             { return query{v} }
func (v view) Offsets() annals.OffsetStore     { return offsets{v} }

// Fault is driver.Driver. All errors of this package are *annals.Error.
func (view) Fault(err error) error { return &annals.Error{Err: err} }

func (v view) Close() error {
	v.watchers.Close()
	return nil
}

// CheckHealth is ability.HealthChecker.
func (view) CheckHealth(context.Context) error { return nil }

// read locks the data for one operation. One of the outer store within a transaction finds what was there before.
func (v view) read() (d *data, unlock func()) {
	v.mu.Lock()
	if v.tx != nil {
		return &v.tx.data, v.mu.Unlock
	}
	return &v.data, v.mu.Unlock
}

// write runs fn, which writes, with the lock. It waits for the write or the transaction that is under way, until ctx ends.
func (v view) write(ctx context.Context, fn func(d *data) error) error {
	if v.tx == nil {
		if err := v.begin(ctx); err != nil {
			return err
		}
		defer v.end()
	}
	d, unlock := v.read()
	defer unlock()
	if v.tx != nil {
		if v.tx.ended != nil {
			return v.tx.ended
		}
		return fn(d)
	}
	err := fn(d)
	v.wake()
	return err
}

// wake signals the events and states that were stored. The lock is held.
func (b *backend) wake() {
	b.watchers.Wake(b.data.dated)
	b.data.dated = 0
}

func (b *backend) begin(ctx context.Context) error {
	select {
	case b.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return withdrawn(ctx)
	}
}

func (b *backend) end() { <-b.writing }

func withdrawn(ctx context.Context) error {
	return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
}
