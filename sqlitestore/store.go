package sqlitestore

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// Limits of every Store. Writes that are greater would delay all others for too long.
const (
	maxEvents  = 10_000
	maxBytes   = 64 << 20
	maxIDBytes = 1024
)

// Options of a Store. The zero Options work.
type Options struct {
	// StateTypes describes, by entity type, states with a table, columns or a change handler of their own. Init creates their tables and additional columns;
	// it need not do so where they exist. Columns of the store that an older StateTable did not have are added.
	StateTypes map[string]annals.StateType[*sql.Tx]
	// Init creates tables, columns and indexes of the program's own. It runs each time the store opens, in the transaction that creates
	// or upgrades the tables of the store, so it must change nothing when it runs again. An error undoes the transaction.
	Init func(ctx context.Context, tx *sql.Tx) error
	// CreateTables lets Open create the file, create or upgrade tables, and run Init. nil means true, since no other step prepares an embedded
	// file; on a server the same option is false by default. Where it is false, use NewSetup before: its Migrate, or the script of its Schema. Open
	// changes nothing then, and is ErrInvalid when something is missing; the error says what.
	CreateTables *bool
	// Checksums stores a checksum with each event, snapshot and state, so that reading one with a flipped bit is ErrCorrupt. Rows that
	// have a checksum are compared with it whenever they are read, also without this option. Additional columns of states are not
	// included.
	Checksums bool
	// ReadOnly opens the store for reading: Open needs the right to read the file only, and creates and upgrades nothing, whatever CreateTables is. Every
	// write is ErrUnsupported. Where no process has the file open, the folder must be writable, because SQLite makes files beside it. They
	// stay, and users who write need the right to write to them.
	ReadOnly bool
	// Observer is told of every call. It may be nil.
	Observer annals.Observer
}

// creates reports whether Open creates what is missing.
func (o Options) creates() bool { return !o.ReadOnly && (o.CreateTables == nil || *o.CreateTables) }

// Store is an annals.Store in one SQLite file. It is also an ability.Transactor[*sql.Tx], and has these abilities (ability.Of), among others:
//
//   - Recover reads the snapshot, the first page of events and the last number in one transaction.
//   - Watch has one signal for any number of commits. Commits of this Store are signalled at once, commits of other processes within a tenth
//     of a second. Of the filter only the slices count, for commits of this Store: signals also come for slices nearby, and for other types.
//   - SkipStateTo runs no change handler, and additional columns get their defaults.
//   - FindStates yields the states whose column has the value, nil for NULL, in the order of their ids.
//   - Forget removes all rows of the entity in one transaction. When there are many, a second DeleteTo, fifteen minutes after the
//     first, removes most of them beforehand in small transactions.
//   - CheckHealth reads from the file, checks that its files have not been deleted or replaced, creates a small file in the same folder
//     and removes it, and takes and releases the write lock. The error is ErrUnavailable when the disk is full or the lock was not free
//     for five seconds, ErrCorrupt when a file was deleted or replaced, and ErrInvalid when the file or its folder cannot be written.
//     Within InTx it is ErrInvalid.
//   - Close also waits for writes that are still executed after the contexts of their callers have ended.
type Store struct {
	*driver.Store
	backend *backend
}

var _ ability.Transactor[*sql.Tx] = (*Store)(nil)

// Open opens the database file at path. When the file is missing, Open creates it, and only its owner may read and write it; the folder
// must exist. Open upgrades the tables of an older release. It does neither where Options.CreateTables is false.
//
// Errors are ErrInvalid (the path cannot be used, a right to write is missing, the file is no database, the tables do not fit the
// StateTypes, or CreateTables is false and there is something to create or upgrade), ErrCorrupt (a table of the store has been changed), ErrUnsupported (a
// newer release wrote the file) and ErrUnavailable. An error of Options.Init has no Kind.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := absolute(path)
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
	s.Store = driver.New(view{b, b}, driver.Options{Name: "sqlite", Self: s, Atomically: s.atomically, Observer: o.Observer, ReadOnly: o.ReadOnly})
	return s, nil
}

func absolute(path string) (string, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.ContainsRune(path, 0) {
		return "", invalid("the path must name a file; for a store in memory there is memstore")
	}
	return filepath.Abs(path)
}

// DB is a read-only pool on the same file, for queries on the user's own tables. It is closed with the store.
func (s *Store) DB() *sql.DB { return s.backend.userDB }
