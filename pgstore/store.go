package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
)

// Options of a Store; the zero Options work.
type Options struct {
	Tables       Tables                              // zero: AkkaTables
	CreateTables bool                                // make what does not exist: schema, tables, indexes
	JSONB        bool                                // CreateTables makes payload columns JSONB; tables that exist are taken as they are
	StateTypes   map[string]annals.StateType[pgx.Tx] // by entity type

	// PluginDeletes has DeleteTo write exactly the rows that the plugins write. Then a writer that began before a delete may
	// be given a deleted number: the store does not claim FenceAfterDelete. The zero value keeps the fence.
	PluginDeletes bool

	// WriteTimeout bounds every write, with the change handler in it, and the function of InTx; the server enforces it.
	// Followers look back further than twice that. 0 is 5 seconds, more than 2 minutes is refused.
	WriteTimeout time.Duration

	Observer annals.Observer // nil: nobody is told
}

const (
	defaultWriteTimeout = 5 * time.Second
	maxWriteTimeout     = 2 * time.Minute
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

	direct   bool // plain events bypass the driver's type map
	yugabyte bool // the server is a YugabyteDB

	journal, snapshot, offset, epoch *table
	states                           map[string]*stateTable // by entity type; "" is the common one
	sql                              statements
	types                            typeMap

	groups   groups
	notifier notifier
	listener listener

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // under mu: none starts after closed
}

var (
	_ annals.Store              = (*Store)(nil)
	_ annals.Transactor[pgx.Tx] = (*Store)(nil)
	_ annals.Recoverer          = (*Store)(nil)
	_ annals.Watcher            = (*Store)(nil)
	_ annals.StateFinder        = (*Store)(nil)
	_ annals.Skipper            = (*Store)(nil)
	_ annals.Forgetter          = (*Store)(nil)
)

// Open checks the tables and returns a store on them. ErrInvalid says all that is wrong with o or the tables,
// ErrUnavailable that the server could not be asked. The pool stays the caller's: close it after the store.
func Open(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	s := &Store{options: o, tables: o.Tables.withDefaults(), reads: pool}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenURL opens postgres://user:password@host:port/database?search_path=…, with a pool of its own that Close closes.
// pgxpool.ParseConfig lists the parameters.
func (o Options) OpenURL(ctx context.Context, u *url.URL) (annals.Store, error) {
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil { // its text shows the URL but for the password: leave it out altogether
		return nil, invalid("open", "", errors.New("the URL is none that pgxpool can parse"))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fault("open", "", err)
	}
	s, err := Open(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := s.settle(); err != nil {
		return invalid("open", "", err)
	}
	if s.reads == nil {
		return invalid("open", "", errors.New("the pool is nil"))
	}
	if s.options.CreateTables {
		if err := s.create(ctx); err != nil {
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
	return s.connect(ctx)
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
	idempotent := true
	for _, t := range s.states {
		idempotent = idempotent && t.has(writeIDs)
	}
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, Offsets: s.offset.exists(),
		CommitSnapshot: true, Tags: true, Metadata: true, TagQueries: true, StateEvents: true,
		IdempotentState: idempotent, Repeatable: true, FenceAfterDelete: !s.options.PluginDeletes, Forgets: true,
		Limits: limits,
	}
}

// limits are what the columns hold: VARCHAR(255) counts characters, so an id of 255 bytes always fits.
var limits = annals.Limits{MaxEvents: 10_000, MaxBytes: 64 << 20, MaxIDBytes: 255}

// Close waits for what is in flight, at most as long as a write may take to be resolved. Watches end.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	s.listener.close()
	s.notifier.close()
	s.write.Close()
	s.group.Close()
	if s.own {
		s.reads.Close()
	}
	return nil
}
