package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// Options of a Store; the zero Options work.
type Options struct {
	Tables       Tables                              // zero: AkkaTables
	CreateTables bool                                // Open creates what does not exist: schema, tables, indexes. Migrate also adds columns
	JSONB        bool                                // CreateTables makes payload columns JSONB; tables that exist are taken as they are
	TagsIndex    bool                                // CreateTables also makes indexes for Filter.Tag, which every write with tags pays for
	StateTypes   map[string]annals.StateType[pgx.Tx] // by entity type

	// PluginDeletes has DeleteTo remove rows at once and leave the plugins' marker, one per entity, at the last event that was
	// deleted. Then a writer that began before a delete may be given a deleted number: the store does not claim
	// FenceAfterDelete. The zero value keeps the fence.
	PluginDeletes bool

	// WriteTimeout bounds every write, with the change handler in it, and the function of InTx; the server enforces it.
	// Followers look back further than twice that. 0 is 5 seconds, more than 2 minutes is refused. It also decides how large a
	// write may be: 4 MiB for each second, at most 64 MiB, which takes a small server a quarter of the time.
	WriteTimeout time.Duration

	// NonDurable accepts settings of the server that PostgreSQL calls non-durable: synchronous_commit=off, fsync=off, unlogged
	// tables. A crash may then lose the last acknowledged writes. The zero value commits synchronously over its own
	// connections where that is off, and refuses the others.
	NonDurable bool

	// MaxEvents is how many events a commit may have. They share one time, and the plugins' queries by slices lose events where
	// as many events as their buffer-size share one: keep it well below the smallest buffer-size of a plugin that reads the
	// table. 0 is 500, half of the plugins' default. Up to 10,000 is allowed, for tables that no plugin reads.
	MaxEvents int

	Observer annals.Observer // nil: nobody is told
}

const (
	defaultWriteTimeout = 5 * time.Second
	maxWriteTimeout     = 2 * time.Minute
	defaultMaxEvents    = 500
	mostEvents          = 10_000
	bytesPerSecond      = 4 << 20 // of WriteTimeout, that a write may have
	mostBytes           = 64 << 20
)

// Store is an annals.Store, Recoverer, Watcher, StateFinder, Skipper, Forgetter and Transactor[pgx.Tx].
type Store struct {
	annals.Unsupported
	options Options
	tables  Tables

	reads *pgxpool.Pool // the caller's, or opened by OpenURL
	own   bool          // reads is closed with the store
	write *pgxpool.Pool // patient connections for single writes and transactions
	group *pgxpool.Pool // connections for append groups: they do not wait long for locks

	reconnects reconnects // of write and group

	sockets  wire.Sockets // of those two pools
	direct   bool         // plain events bypass the driver's type map
	yugabyte bool         // the server is a YugabyteDB

	journal, snapshot, offset, epoch *table
	states                           map[string]*stateTable // by entity type; "" is the common one
	sql                              statements
	types                            typeMap
	limits                           annals.Limits

	groups   groups
	notifier notifier
	listener listener

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // writes, also those whose callers have left. Under mu: none starts after closed
	reading sync.WaitGroup // as calls, but reads
}

var (
	_ annals.Store              = (*Store)(nil)
	_ annals.Transactor[pgx.Tx] = (*Store)(nil)
	_ annals.Recoverer          = (*Store)(nil)
	_ annals.Watcher            = (*Store)(nil)
	_ annals.StateFinder        = (*Store)(nil)
	_ annals.Skipper            = (*Store)(nil)
	_ annals.StateSkipper       = (*Store)(nil)
	_ annals.Forgetter          = (*Store)(nil)
	_ annals.HealthChecker      = (*Store)(nil)
)

// Open checks the tables and returns a store on them. ErrInvalid says all that is wrong with o or the tables, or that the server
// refuses the user or the database; ErrUnavailable that the server could not be asked. The pool stays the caller's: close it
// after the store.
func Open(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	o.Observer = panics.Observer(o.Observer)
	s, err := unopened(pool, o)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		s.disconnect()
		return err
	}
	return nil
}

func (s *Store) start(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
			return invalid("open", "", unfit)
		}
		return fault("open", "", err)
	}
	if err := s.refusePartitions(ctx); err != nil {
		return fault("open", "", err)
	}
	if s.options.CreateTables {
		if _, err := s.create(ctx, false); err != nil {
			return fault("open", "", err)
		}
	}
	wrong, err := s.verify(ctx)
	if err != nil {
		return fault("open", "", err)
	}
	if wrong != nil {
		return invalid("open", "", wrong)
	}
	s.prepare()
	s.groups.write = s.writeGroup
	s.notifier.start(s)
	s.listener.start(s)
	return nil
}

// settle fills the defaults in and says what is wrong with the options.
func (s *Store) settle() error {
	faults := []error{s.tables.validate(), s.validateStateTypes()}
	switch t := s.options.WriteTimeout; {
	case t == 0:
		s.options.WriteTimeout = defaultWriteTimeout
	case t < time.Millisecond || t > maxWriteTimeout:
		faults = append(faults, fmt.Errorf("WriteTimeout is %v: it must be between 1 ms and %v", t, maxWriteTimeout))
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

// Journal is the store's journal.
func (s *Store) Journal() annals.Journal { return journal{view{s: s}} }

// Snapshots is the store's snapshot store. It keeps one snapshot per entity.
func (s *Store) Snapshots() annals.SnapshotStore { return snapshots{view{s: s}} }

// States is the store's durable states.
func (s *Store) States() annals.StateStore { return states{view{s: s}} }

// Query reads across entities. Each page of a loop sees the store as of its own beginning.
func (s *Store) Query() annals.Query { return query{view{s: s}} }

// Offsets is the store's offset store.
func (s *Store) Offsets() annals.OffsetStore { return offsets{view{s: s}} }

// Capabilities depend on the tables that the database has, and on Options.PluginDeletes.
func (s *Store) Capabilities() annals.Capabilities {
	idempotent, stateMetadata := true, true
	for _, t := range s.states {
		idempotent, stateMetadata = idempotent && t.has(writeIDs), stateMetadata && t.keepsMetadata()
	}
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, Offsets: s.offset.exists(),
		CommitSnapshot: true, Tags: true, Metadata: true, StateMetadata: stateMetadata, EventTimes: true, TagQueries: true, StateEvents: true,
		IdempotentState: idempotent, Repeatable: true, FenceAfterDelete: !s.options.PluginDeletes, Forgets: true,
		Limits: s.limits,
	}
}

// idLimits are what the columns of ids hold: VARCHAR(255) counts characters.
var idLimits = annals.Limits{MaxIDChars: maxChars}

// Close waits for what is in flight: for writes until their outcomes are known, at most 30 seconds and an attempt; for reads,
// which only their contexts end, at most as long as a write may take. ErrUnavailable says that reads were left behind. Watches
// end.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	var err error
	if !ends(s.reading.Wait, s.answerTime()) {
		err = &annals.Error{Op: "close", Kind: annals.ErrUnavailable, Err: errors.New("the server does not answer reads that began before")}
	}
	s.listener.close()
	s.notifier.close()
	s.disconnect()
	if s.own {
		ends(s.reads.Close, s.answerTime())
	}
	return err
}

// ends reports whether f returns within d. If not, it goes on.
func ends(f func(), d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
