package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/clock"
	"github.com/annals-go/annals/internal/statetype"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// Options of a Store. The zero Options are valid.
type Options struct {
	Tables       Tables                              // zero: those of Akka's plugins
	CreateTables bool                                // Open creates the schema, tables and indexes that do not exist, and upgrades the table of epochs of an older release; it changes nothing else
	JSONB        bool                                // new tables have payload columns of type JSONB; those of existing tables may have any type
	TagsIndex    bool                                // indexes for Filter.Tag are created too; they make writes with tags slower
	StateTypes   map[string]annals.StateType[pgx.Tx] // by entity type

	// PluginDeletes makes DeleteTo leave the rows that the plugins leave: it removes rows at once and puts a marker at the number that
	// was deleted to. A delete below an earlier one leaves a second marker, which the next delete above it removes. A writer that began
	// before a delete may then store an event under a deleted number, so the store does not claim FenceAfterDelete. Unlike with the
	// plugins, a delete beyond the last event is one to the last event, and an entity that was never written gets no marker.
	PluginDeletes bool

	// PluginOffsets makes a save of offsets write a row of the plugins' table for each entity, also where annals.Progress.Through covers it.
	// A projection of a plugin goes on from these rows, and handles again what has no row. So set it from the first run of a projection on that
	// may go back to the JVM. Without it a save costs the server less. The rows that a plugin wrote are read in both cases.
	PluginOffsets bool

	// Gaps accepts numbers without events before an entity's first event that no marker covers: the plugins' deleteEventsBefore, and
	// statements of users, remove rows without leaving a marker. Without Gaps they are ErrCorrupt.
	Gaps bool

	// Strict makes all numbers without events ErrCorrupt for which there is no marker of a delete and no durable state. Otherwise such
	// numbers are accepted where the plugins may have left them unused, and annals.Result.Unused and Check report them.
	Strict bool

	// WriteTimeout is the most time that a write, including its change handler, or the function of InTx may take. The server
	// enforces it. 0 means 5 seconds; the maximum is 2 minutes. It also limits the size of a write: 4 MiB per second of WriteTimeout,
	// at most 64 MiB.
	WriteTimeout time.Duration

	// Lateness is the claim Capabilities.Lateness: the longest transaction of any program that writes events. 0 means twice
	// WriteTimeout, which holds for this package. It is the greatest of them where other programs write: those with a greater
	// WriteTimeout, or with the plugins. Less than twice WriteTimeout is refused.
	Lateness time.Duration

	// NonDurable accepts the settings that PostgreSQL calls non-durable: synchronous_commit=off, fsync=off and unlogged tables. A
	// crash of the server may then lose acknowledged writes. Otherwise the store's own connections commit synchronously where
	// that is off, and Open refuses the other two.
	NonDurable bool

	// MaxEvents is how many events a commit may have. The events of a commit share one time, and the plugins' queries by slices
	// lose events when as many events as their buffer-size share a time: keep MaxEvents well below the smallest buffer-size of a
	// plugin that reads the table. 0 means 500, half of the plugins' default. The maximum is 10,000.
	MaxEvents int

	// ReadOnly opens the store for reading: Open asks for the right to SELECT only, accepts a standby and a read-only session, and creates
	// nothing. Every write is ErrUnsupported. The store opens no connections of its own, so watches are woken every second.
	ReadOnly bool

	Observer annals.Observer // may be nil
}

const (
	defaultWriteTimeout = 5 * time.Second
	maxWriteTimeout     = 2 * time.Minute
	defaultMaxEvents    = 500
	mostEvents          = 10_000
	bytesPerSecond      = 4 << 20 // of a write, per second of WriteTimeout
	mostBytes           = 64 << 20
)

// Store is an annals.Store and Transactor[pgx.Tx], and has these abilities (ability.Of), among others:
//
//   - Recover makes one statement, where at most a thousand events follow the snapshot.
//   - Watch signals after writes of this store at once, and after those of others when they notify, or every second behind a pooler. Signals
//     also come for other types and for slices near those of the filter, and without a cause, such as after a lost connection.
//   - FindStates yields the states of a type whose additional column has the value, in the order of their ids. A nil value finds NULL.
//     Tombstones are left out. ErrInvalid when the type has no such column, or the column takes no such value.
//   - Forget waits for the transactions that have written to the journal, at most 3 seconds, within InTx one. Then it locks the entity, within
//     InTx until the transaction ends; where that transaction has deleted the events itself, it locks the journal against all writers. The
//     age of deleted events is that of the marker that DeleteTo left.
//   - CheckHealth makes two statements: one over the caller's pool, which asks for tables and rights, and one over a connection for
//     writes, which reads the journal and asks whether the session can write.
//   - Close waits for writes until their outcomes are known, at most 30 seconds and an attempt, and for reads, which only their contexts end,
//     at most as long as a write may take. ErrUnavailable says that reads have not ended. Watches end.
type Store struct {
	*driver.Store
	backend *backend
}

var _ ability.Transactor[pgx.Tx] = (*Store)(nil)

// Open checks the server, the tables and the role's rights to them, and returns a store. ErrInvalid names everything that is wrong
// with o, the tables or the rights, or says that the server refuses the user or the database; ErrUnavailable means that the server
// could not be asked. The caller closes the pool, after the store.
func Open(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	b, err := newBackend(pool, o)
	if err == nil {
		if err = b.start(ctx); err != nil {
			b.disconnect()
		}
	}
	if err != nil {
		return nil, faultOf("open", err)
	}
	s := &Store{backend: b}
	b.self = s
	s.Store = driver.New(&view{s: b}, driver.Options{Name: "postgres", Self: s, Atomically: s.atomically, Observer: o.Observer, ReadOnly: o.ReadOnly, Strict: o.Strict, ReadWait: b.answerTime()})
	return s, nil
}

// DB is the pool that the store reads with: the one that was given to Open, or one that was made for a URL, or for a pooler in place of a
// pool that prepares statements; those are closed with the store. Writes of the store have connections of their own, unless the pool may have one
// only: do not wait for it within InTx then.
func (s *Store) DB() *pgxpool.Pool { return s.backend.reads }

// backend is what a Store and its transactions share.
type backend struct {
	self    *Store
	options Options
	tables  Tables

	reads  *pgxpool.Pool // the caller's, or made by OpenURL or findPooler
	own    bool          // reads is closed with the store
	write  *writePool    // connections for single writes and transactions, which wait for locks
	group  *writePool    // connections for append groups, which do not wait long for locks
	pooled bool          // a connection may have another session of the server in each transaction

	shared   bool          // reads has one connection, which is that of write and group
	spare    *pgxpool.Pool // of one connection, while a transaction of the program has that one; nil unless shared
	programs atomic.Int64  // transactions that run code of the program

	reconnects reconnects   // of write and group
	sockets    wire.Sockets // of those two pools
	direct     bool         // single events bypass the driver's conversion of parameters
	yugabyte   bool         // the server is a YugabyteDB

	journal, snapshot, offset, epoch *table
	states                           map[string]*stateTable  // by entity type; "" is the common one
	fill                             func(sql string) string // see filler
	sql                              statements
	types                            typeMap
	limits                           annals.Limits

	groups     groups
	background sync.WaitGroup // appends whose calls may have returned
	clock      clock.Guard    // of the server
	late       atomic.Bool    // the last watermark found a transaction older than Lateness
	notifier   notifier
	listener   listener
	watchers   watchers.Set
}

// newBackend is a backend that has not been opened yet.
func newBackend(pool *pgxpool.Pool, o Options) (*backend, error) {
	b := &backend{options: o, tables: o.Tables.withDefaults(), reads: pool}
	if err := b.settle(); err != nil {
		return nil, invalid(err)
	}
	return b, nil
}

func (s *backend) start(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
			return invalid(unfit)
		}
		return err
	}
	if err := s.refuseTables(ctx); err != nil {
		return err
	}
	if s.options.CreateTables && !s.options.ReadOnly {
		if _, err := s.create(ctx, false); err != nil {
			return err
		}
	}
	wrong, err := s.verify(ctx)
	if err != nil {
		return err
	}
	if wrong != nil {
		return invalid(wrong)
	}
	s.prepare()
	s.groups.write = s.writeGroup
	s.reconnects.full = s.listener.giveWay
	s.notifier.start(s)
	s.watchers.Follow = s.listenForWrites
	return nil
}

// settle sets defaults and says what is wrong with the options.
func (s *backend) settle() error {
	faults := []error{s.tables.validate(), statetype.Faults(s.options.StateTypes, stateShape.has, func(column string) string { return column }, validName)}
	switch t := s.options.WriteTimeout; {
	case t == 0:
		s.options.WriteTimeout = defaultWriteTimeout
	case t < time.Millisecond || t > maxWriteTimeout:
		faults = append(faults, fmt.Errorf("WriteTimeout is %v: it must be between 1 ms and %v", t, maxWriteTimeout))
	}
	switch l, least := s.options.Lateness, 2*s.options.WriteTimeout; {
	case l == 0:
		s.options.Lateness = least
	case l < least:
		faults = append(faults, fmt.Errorf("Lateness is %v: it must be at least twice WriteTimeout, %v", l, least))
	}
	switch n := s.options.MaxEvents; {
	case n == 0:
		s.options.MaxEvents = defaultMaxEvents
	case n < 1 || n > mostEvents:
		faults = append(faults, fmt.Errorf("MaxEvents is %d: it must be between 1 and %d", n, mostEvents))
	}
	s.limits = annals.Limits{MaxEvents: s.options.MaxEvents, MaxIDChars: maxChars,
		MaxBytes: min(mostBytes, int(s.options.WriteTimeout.Seconds()*bytesPerSecond))}
	return errors.Join(faults...)
}

// view is the driver.Driver of a store, or of a store inside a transaction.
type view struct {
	s  *backend
	tx *transaction // nil outside
}

// Capabilities depend on the tables, and on Options.PluginDeletes.
func (v *view) Capabilities() annals.Capabilities {
	idempotent, stateMetadata := true, true
	for _, t := range v.s.states {
		idempotent, stateMetadata = idempotent && t.has(writeIDs), stateMetadata && t.keepsMetadata()
	}
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, IDQueries: true, Offsets: v.s.offset.exists(),
		CommitSnapshot: true, Tags: true, Metadata: true, StateMetadata: stateMetadata, Times: true, EventTimes: true,
		SnapshotQueries: v.s.snapshotsAreFollowed(), TagQueries: true, DeletesStates: true, StateEvents: true,
		IdempotentState: idempotent, Repeatable: true, FenceAfterDelete: !v.s.options.PluginDeletes, GuardsReads: true,
		Lateness: v.s.options.Lateness,
		Limits:   v.s.limits,
	}
}

func (v *view) Journal() annals.Journal         { return journal{v} }
func (v *view) Snapshots() annals.SnapshotStore { return snapshots{v} }
func (v *view) States() annals.StateStore       { return states{v} }
func (v *view) Query() annals.Query             { return query{v} }
func (v *view) Offsets() annals.OffsetStore     { return offsets{v} }

// Close ends the watches and closes the store's own connections.
func (v *view) Close() error {
	s := v.s
	s.background.Wait()
	s.watchers.Close()
	s.notifier.close()
	s.disconnect()
	return nil
}

// reader is where v reads: the caller's pool, or the transaction. It counts a request.
func (v *view) reader(ctx context.Context) querier {
	driver.Count(ctx, annals.Result{Requests: 1})
	if v.tx != nil {
		return v.tx.tx
	}
	return v.s.pool(ctx)
}

// write makes a write of one transaction. It repeats the write when the server undid it because of other transactions, as untilKnown does. When the answer
// is lost the error is ErrUnknown. Within InTx there is one attempt, and its outcome is certain.
func (v *view) write(ctx context.Context, do func(ctx context.Context, q querier) error) error {
	if v.tx != nil {
		driver.Count(ctx, annals.Result{Requests: 1})
		return do(ctx, v.tx.tx)
	}
	_, err := v.s.untilKnown(ctx, &attempts{since: time.Now(), blind: true}, func(ctx context.Context, q querier) (outcome, error) {
		driver.Count(ctx, annals.Result{Requests: 1})
		return outcome{}, do(ctx, q)
	})
	return err
}

// writeTx is write for several statements.
func (v *view) writeTx(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return v.write(ctx, func(ctx context.Context, q querier) error {
		return atomically(ctx, q, func(tx pgx.Tx) error { return do(ctx, tx) })
	})
}

// tryWrite makes one attempt of a write: over a connection of the store's own, or in the transaction.
func (v *view) tryWrite(ctx context.Context, do func(ctx context.Context, q querier) error) error {
	if v.tx != nil {
		return do(ctx, v.tx.tx)
	}
	return v.s.attempt(ctx, do)
}
