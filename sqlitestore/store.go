package sqlitestore

import (
	"context"
	"database/sql"
	"iter"
	"path/filepath"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Limits of every Store. A group of writes is one transaction, so they are set where one write would hold up the others.
const (
	MaxEvents  = 10_000
	MaxBytes   = 64 << 20
	MaxIDBytes = 1024
)

// Options of a Store; the zero Options work.
type Options struct {
	// StateTypes says what is special about the durable states of an entity type. Their tables and columns must be
	// there when Init has run.
	StateTypes map[string]annals.StateType[*sql.Tx]
	// Init runs each time the store opens, in the transaction that creates the store's tables when they are missing:
	// the place for tables, columns and indexes of the user's own. It must bear repetition. An error undoes all of it.
	Init func(ctx context.Context, tx *sql.Tx) error
	// NoMigration forbids Open to create the file, to create or change tables, and to run Init: Migrate does this as a step of its
	// own, or somebody runs the script that Schema returns. Open is then ErrInvalid where something is missing, and says what.
	NoMigration bool
	// Checksums writes a checksum beside each event, snapshot and state, so that a flipped bit in one is ErrCorrupt and not
	// another payload. What was written with a checksum is compared with it by every read, whatever this says. Additional
	// columns of states are left out.
	Checksums bool
	// Observer is told of every call; nil is nobody.
	Observer annals.Observer
}

// Store is an annals.Store in one SQLite file. It is also an annals.Transactor[*sql.Tx], Recoverer, Skipper, StateSkipper,
// StateFinder, Forgetter, Watcher and HealthChecker.
type Store struct {
	abilities
	backend *backend
}

var (
	_ annals.Store               = (*Store)(nil)
	_ annals.Transactor[*sql.Tx] = (*Store)(nil)
	_ annals.Recoverer           = (*Store)(nil)
	_ annals.Skipper             = (*Store)(nil)
	_ annals.StateSkipper        = (*Store)(nil)
	_ annals.StateFinder         = (*Store)(nil)
	_ annals.Forgetter           = (*Store)(nil)
	_ annals.Watcher             = (*Store)(nil)
	_ annals.HealthChecker       = (*Store)(nil)
)

// Open opens the database file at path and creates it when it is missing, for its owner alone; its folder must exist.
// Errors are ErrInvalid (no usable path, no right to write, no database file, StateTypes that the tables do not fit),
// ErrCorrupt (the store's own tables are not as they have to be), ErrUnsupported (a newer release wrote the file) and
// ErrUnavailable; an error of Options.Init comes without a Kind.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.ContainsRune(path, 0) {
		return nil, openFault(invalid("the path must name a file; for a store in memory there is memstore"))
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, openFault(err)
	}
	types, err := compileTypes(o.StateTypes)
	if err != nil {
		return nil, openFault(err)
	}
	b := &backend{path: path, types: types}
	if err := b.open(ctx, o); err != nil {
		_ = b.release()
		return nil, openFault(err)
	}
	s := &Store{backend: b}
	b.self = s
	s.Store = driver.New(view{b, b}, driver.Options{Name: "sqlite", Self: s, Observer: o.Observer})
	return s, nil
}

// Close waits for the calls under way, and for writes whose callers no longer wait for them. Later calls answer ErrClosed. It must
// not be called within InTx.
func (s *Store) Close() error { return s.Store.Close() }

// DB is a read-only pool on the same file, for queries on the user's own tables. It is closed with the store.
func (s *Store) DB() *sql.DB { return s.backend.userDB }

// abilities are what a Store, and a store inside a transaction, can do beside the contracts of annals.Store.
type abilities struct{ *driver.Store }

// Recover is annals.Recoverer. The snapshot, the first page of events and the last number are of one moment.
func (a abilities) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.Recover(ctx, a.Store, id, snapshot, event)
}

// SkipTo is annals.Skipper.
func (a abilities) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return driver.SkipTo(ctx, a.Store, id, n)
}

// SkipStateTo is annals.StateSkipper. No change handler runs, and additional columns get their defaults.
func (a abilities) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return driver.SkipStateTo(ctx, a.Store, id, n)
}

// FindStates is annals.StateFinder: the states whose column has the value, nil for NULL, in the order of their ids.
func (a abilities) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return driver.FindStates(ctx, a.Store, entityType, column, value)
}

// Forget is annals.Forgetter, in one transaction. The rows that DeleteTo has emptied are removed with the entity: where they are many,
// a second DeleteTo removes them beforehand, in batches.
func (a abilities) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return driver.Forget(ctx, a.Store, f)
}

// Watch is annals.Watcher. The channel holds one signal for any number of commits. Commits of this Store are signalled at once, those
// of another process within a tenth of a second; the filter is not looked at.
func (s *Store) Watch(ctx context.Context, f annals.Filter) (<-chan struct{}, error) {
	return driver.Watch(ctx, s.Store, f)
}

// CheckHealth is annals.HealthChecker. It reads the file, looks whether the files are the ones that were opened, writes a few bytes
// into a new file beside the database, which it removes again, and takes and releases the write lock. It is ErrUnavailable when the
// disk is full or the lock has not been free for five seconds, ErrCorrupt when a file was deleted or replaced, and ErrInvalid when
// the file or its folder cannot be written, or within a transaction.
func (s *Store) CheckHealth(ctx context.Context) error { return driver.CheckHealth(ctx, s.Store) }
