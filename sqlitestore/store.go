package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
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

// Store is an annals.Store in one SQLite file. It is also an annals.Transactor[*sql.Tx], Recoverer, StateFinder, Watcher
// and Forgetter.
type Store struct {
	contracts
	path     string
	files    files
	writerDB *sql.DB
	conn     *sql.Conn // the only one of writerDB
	readerDB *sql.DB
	readers  *readers
	userDB   *sql.DB
	writer   *writer
	watchers watchers

	closing sync.Once
	mu      sync.RWMutex // held for reading by every read; Close takes it whole
	closed  bool
}

var (
	_ annals.Store               = (*Store)(nil)
	_ annals.Transactor[*sql.Tx] = (*Store)(nil)
	_ annals.Recoverer           = (*Store)(nil)
	_ annals.StateFinder         = (*Store)(nil)
	_ annals.Watcher             = (*Store)(nil)
	_ annals.Skipper             = (*Store)(nil)
	_ annals.StateSkipper        = (*Store)(nil)
	_ annals.HealthChecker       = (*Store)(nil)
	_ annals.Forgetter           = (*Store)(nil)
	_ annals.Forgetter           = (*insideStore)(nil)
)

// Open opens the database file at path and creates it when it is missing, for its owner alone; its folder must exist.
// Errors are ErrInvalid (no usable path, no right to write, no database file, StateTypes that the tables do not fit),
// ErrCorrupt (the store's own tables are not as they have to be), ErrUnsupported (a newer release wrote the file) and
// ErrUnavailable; an error of Options.Init comes without a Kind.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.ContainsRune(path, 0) {
		return nil, invalid("open", "", "the path must name a file; for a store in memory there is memstore")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	types, err := compileTypes(o.StateTypes)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path}
	s.contracts = contracts{session: s, shared: &shared{types: types, observer: panics.Observer(o.Observer)}}
	if err := s.open(ctx, o); err != nil {
		_ = s.release()
		return nil, translateOpen(err)
	}
	s.writer = newWriter(s.conn, s.files, newClock(types.tables("")), s.watchers.wake)
	if o.Checksums {
		s.writer.checksums = &checksums{}
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	create := createFile
	if o.NoMigration {
		create = findFile
	}
	err = create(s.path, func(modeof ...string) error { return s.openWriter(ctx, modeof) })
	if err != nil {
		return err
	}
	if err := prepareFile(ctx, s.conn, s.types, o); err != nil {
		return err
	}
	if err := s.probeFile(ctx); err != nil {
		return err
	}
	if s.files, err = openFiles(s.path); err != nil {
		return err
	}
	// A reader waits only for the recovery after a crash, and its context ends that wait.
	readOnly := dsn(s.path, "mode=ro", "_pragma=busy_timeout(3600000)")
	if s.readerDB, err = sql.Open("sqlite", readOnly); err != nil {
		return err
	}
	if s.userDB, err = sql.Open("sqlite", readOnly); err != nil {
		return err
	}
	s.readers = newReaders(s.readerDB, s.files, max(4, 2*runtime.GOMAXPROCS(0)))
	return nil
}

func (s *Store) openWriter(ctx context.Context, more []string) (err error) {
	query := append(more, "_txlock=immediate", "_pragma=busy_timeout(0)", "_pragma=synchronous(full)", "_pragma=wal_autocheckpoint(4096)", "_pragma=cache_size(-16384)")
	if s.writerDB, err = sql.Open("sqlite", dsn(s.path, query...)); err != nil {
		return err
	}
	s.writerDB.SetMaxOpenConns(1)
	return patiently(ctx, func() (err error) {
		s.conn, err = s.writerDB.Conn(ctx)
		return err
	})
}

// prepareFile refuses a file that is no database or too new before it changes anything. Then it turns on the write-ahead log and
// migrates the tables, or looks whether both have been done.
func prepareFile(ctx context.Context, conn *sql.Conn, types stateTypes, o Options) error {
	q := &statements{prepare: conn.PrepareContext}
	defer func() { _ = q.close() }()
	err := patiently(ctx, func() error { _, err := checkVersion(ctx, q); return err })
	if err != nil {
		return err
	}
	pragma := `PRAGMA journal_mode = WAL`
	if o.NoMigration {
		pragma = `PRAGMA journal_mode`
	}
	mode := ""
	err = patiently(ctx, func() error {
		_, err := q.row(ctx, pragma, nil, func(v *values) { mode = v.text("journal_mode") })
		return err
	})
	switch {
	case err != nil:
		return err
	case mode != "wal" && o.NoMigration:
		return invalid("open", "", "the file has no write-ahead log: Migrate turns it on")
	case mode != "wal":
		return &annals.Error{Op: "open", Kind: annals.ErrUnsupported, Err: errors.New("the file system does not support a write-ahead log")}
	}
	return patiently(ctx, func() error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if o.NoMigration {
			return checkSchema(ctx, tx, types)
		}
		if err := migrate(ctx, tx, types, o.Init); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// patiently repeats fn while another process holds the lock, until ctx ends.
func patiently(ctx context.Context, fn func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := fn()
		if !busy(err) {
			return err
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// DB is a read-only pool on the same file, for queries on the user's own tables. It is closed with the store.
func (s *Store) DB() *sql.DB { return s.userDB }

// Close waits for the writes that are queued and for the reads that are under way; later calls answer ErrClosed. It
// must not be called within InTx.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.writer.close()
		s.watchers.stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		err = translate("close", "", errors.Join(s.writer.statements.close(), s.release()))
	})
	return err
}

// release closes the connections: the writer's last, since SQLite folds the log into the file when the last one goes.
func (s *Store) release() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	for _, db := range []*sql.DB{s.userDB, s.readerDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.writerDB != nil {
		errs = append(errs, s.writerDB.Close())
	}
	return errors.Join(errs...)
}

func (s *Store) read(ctx context.Context, c annals.Call, fn func(context.Context, *statements) error) error {
	return s.reading(ctx, c, func() error { return s.readers.read(ctx, fn) })
}

func (s *Store) readTx(ctx context.Context, c annals.Call, fn func(context.Context, *statements) error) error {
	return s.reading(ctx, c, func() error { return s.readers.readTx(ctx, fn) })
}

// reading runs fn unless the store is closed, and keeps Close waiting meanwhile.
func (s *Store) reading(ctx context.Context, c annals.Call, fn func() error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrClosed}
	}
	if ctx.Err() != nil {
		return withdrawn(ctx, c.Op, c.ID)
	}
	return translate(c.Op, c.ID, fn())
}

func (s *Store) write(ctx context.Context, c annals.Call, j *write) error {
	if annals.ContextInTx(ctx, s) {
		return errInside(c)
	}
	return translate(c.Op, c.ID, s.writer.submit(ctx, c, j))
}

// dsn is a file: URI, in which the path may hold any character.
func dsn(path string, query ...string) string {
	path = "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")
	u := url.URL{Scheme: "file", Path: path, RawQuery: strings.Join(query, "&")}
	return u.String()
}
