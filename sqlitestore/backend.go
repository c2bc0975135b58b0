package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/watchers"
)

// backend is the open file, with one connection that writes and several that read.
type backend struct {
	self      *Store
	path      string
	types     stateTypes
	files     files
	writerDB  *sql.DB
	conn      *sql.Conn   // the only one of writerDB
	looksOnly bool        // Options.ReadOnly
	lent      atomic.Bool // code of the user writes in the transaction of conn, and nothing may be committed
	readerDB  *sql.DB
	readers   *readers
	userDB    *sql.DB
	writer    *writer
	watchers  watchers.Set

	signalled atomic.Int64 // the latest time of an event or state that was signalled to watchers
}

func (b *backend) open(ctx context.Context, o Options) (err error) {
	create := findFile
	if o.creates() {
		create = createFile
	}
	if err := b.openWriter(ctx, create, o); err != nil {
		return err
	}
	if err := prepareFile(ctx, b.conn, b.types, o); err != nil {
		return err
	}
	if !o.ReadOnly {
		if err := b.probeFile(ctx); err != nil {
			return err
		}
	}
	if b.files, err = openFiles(b.path); err != nil {
		return err
	}
	if b.readerDB, err = sql.Open("sqlite", b.readOnly()); err != nil {
		return err
	}
	if b.userDB, err = sql.Open("sqlite", b.readOnly()); err != nil {
		return err
	}
	b.readers = newReaders(b.readerDB, b.files, max(4, 2*runtime.GOMAXPROCS(0)))
	b.watchers.Follow = b.poll
	b.writer = newWriter(b.conn, b.files, newClock(b.types.tables("")), b.wake)
	if o.Checksums {
		b.writer.checksums = &checksums{}
	}
	return nil
}

// readOnly is for connections that read. They wait only for the recovery after a crash, and the context of the call ends that wait.
func (b *backend) readOnly() string { return dsn(b.path, "mode=ro", "_pragma=busy_timeout(3600000)") }

// openWriter opens the file, which find finds or creates, and the connection that writes. Of a store for reading this connection reads, too.
func (b *backend) openWriter(ctx context.Context, find func(path string, open func(more ...string) error) error, o Options) error {
	b.looksOnly = o.ReadOnly
	return find(b.path, func(more ...string) (err error) {
		if b.looksOnly {
			more = append(more, "mode=ro")
		}
		return b.connect(ctx, more)
	})
}

func (b *backend) connect(ctx context.Context, more []string) (err error) {
	query := append(more, "_txlock=immediate", "_pragma=busy_timeout(0)", "_pragma=synchronous(full)", "_pragma=wal_autocheckpoint(4096)", "_pragma=cache_size(-16384)")
	if b.writerDB, err = sql.Open("sqlite", dsn(b.path, query...)); err != nil {
		return err
	}
	b.writerDB.SetMaxOpenConns(1)
	err = patiently(ctx, func() (err error) {
		b.conn, err = b.writerDB.Conn(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return b.conn.Raw(func(conn any) error {
		conn.(sqlite.HookRegisterer).RegisterCommitHook(b.atCommit)
		return nil
	})
}

// atCommit is called by SQLite at the end of each commit, and refuses it unless it returns 0.
func (b *backend) atCommit() int32 {
	if b.lent.Load() {
		return 1
	}
	return 0
}

// prepareFile refuses a file that is no database or too new before it changes anything. Then it turns on the write-ahead log and
// migrates the tables, or checks that both have been done.
func prepareFile(ctx context.Context, conn *sql.Conn, types stateTypes, o Options) error {
	q := &statements{conn: conn}
	defer func() { _ = q.close() }()
	if err := lookAtVersion(ctx, q); err != nil {
		return err
	}
	pragma := getMode
	if o.creates() {
		pragma = setWAL
	}
	mode, err := journalMode(ctx, q, pragma)
	switch {
	case err != nil:
		return err
	case mode != "wal" && !o.creates():
		return errNoWAL
	case mode != "wal":
		return &annals.Error{Kind: annals.ErrUnsupported, Err: errors.New("the file system does not support a write-ahead log")}
	}
	return patiently(ctx, func() error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := prepareTables(ctx, tx, q, types, o); err != nil || !o.creates() {
			return err
		}
		return tx.Commit()
	})
}

// journalMode is the answer to one of two statements about the write-ahead log.
func journalMode(ctx context.Context, q *statements, pragma string) (mode string, err error) {
	err = patiently(ctx, func() error {
		_, err := q.row(ctx, pragma, nil, func(v *values) { mode = v.text("journal_mode") })
		return err
	})
	return mode, err
}

// close waits for the writes whose callers returned before the write ended. No call is under way.
func (b *backend) close() error {
	b.writer.close()
	b.watchers.Close()
	return errors.Join(b.writer.statements.close(), b.release())
}

// release closes the connections. That of the writer is the last, because SQLite copies the log into the file when the last
// connection is closed.
func (b *backend) release() error {
	var errs []error
	if b.readers != nil {
		errs = append(errs, b.readers.close())
	}
	for _, db := range []*sql.DB{b.userDB, b.readerDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if b.conn != nil {
		errs = append(errs, b.conn.Close())
	}
	if b.writerDB != nil {
		errs = append(errs, b.writerDB.Close())
	}
	return errors.Join(errs...)
}

func (b *backend) read(ctx context.Context, fn func(context.Context, *statements) error) error {
	once(ctx)
	return b.readers.read(ctx, fn)
}

func (b *backend) readTx(ctx context.Context, fn func(context.Context, *statements) error) error {
	once(ctx)
	return b.readers.readTx(ctx, fn)
}

func (b *backend) write(ctx context.Context, w *write) error {
	once(ctx)
	return b.writer.submit(ctx, w)
}

// alone runs fn on the caller's goroutine. SQLite may roll the transaction back after a statement of the user that fails. Later statements
// would then be committed one by one, so until fn has returned every commit is refused, which undoes the statement. When ctx ends, the transaction is undone and others write, also while fn, with code of the user
// in it, has not returned. A statement that is under way ends first.
func (b *backend) alone(ctx context.Context, fn func(ctx context.Context, t *transaction) error) error {
	once(ctx)
	release, err := b.writer.exclusive(ctx)
	if err != nil {
		return err
	}
	tx, err := b.begin(ctx)
	if err != nil {
		release()
		return err
	}
	undo := func() {
		_ = tx.Rollback() // without effect after a Commit; for errors, panics and Goexit
		b.lent.Store(false)
		release()
	}
	if err := b.writer.check(annals.ErrCorrupt); err != nil {
		undo()
		return err
	}
	b.lent.Store(true)
	// fn may go on after ctx has ended, so it has a clock and buffers of its own.
	clock, statements := b.writer.clock, b.writer.statements
	t := &transaction{tx: tx, clock: &clock, checksums: b.writer.checksums.another(), statements: statements}
	open := contexts.UndoAtEnd(ctx, func() {
		statements.end(withdrawn(ctx))
		b.writer.renew()
		undo()
	})
	defer func() {
		if open() {
			undo()
		}
	}()
	if err := fn(ctx, t); err != nil {
		return err
	}
	if !open() {
		return withdrawn(ctx)
	}
	b.lent.Store(false)
	b.writer.clock.adopt(&clock)
	if err := tx.Commit(); err != nil {
		if uncertain(err) {
			return &annals.Error{Kind: annals.ErrUnknown, Err: err}
		}
		return err
	}
	return b.writer.settle(t)
}

// begin waits for the write lock of the file until ctx ends.
func (b *backend) begin(ctx context.Context) (tx *sql.Tx, err error) {
	err = patiently(ctx, func() (err error) {
		// Without ctx: when it ends, database/sql would roll back between two statements.
		tx, err = b.conn.BeginTx(context.WithoutCancel(ctx), nil)
		return err
	})
	return tx, err
}

// dsn is a file: URI, in which the path may hold any character.
func dsn(path string, query ...string) string {
	path = "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")
	u := url.URL{Scheme: "file", Path: path, RawQuery: strings.Join(query, "&")}
	return u.String()
}

// session is where a view reads and writes: the backend, or one transaction of it.
type session interface {
	// read runs fn with statements that see everything committed, and in a transaction what it has written so far.
	read(ctx context.Context, fn func(context.Context, *statements) error) error
	// readTx is read where all statements of fn see the same moment.
	readTx(ctx context.Context, fn func(context.Context, *statements) error) error
	// write runs w.apply in a transaction, which it may share with other writes, and returns when it has been committed.
	write(ctx context.Context, w *write) error
	// alone is write with a transaction of its own, for what runs the user's code.
	alone(ctx context.Context, fn func(context.Context, *transaction) error) error
}

// view is the driver.Driver of a Store, or of a store inside a transaction.
type view struct {
	session
	b *backend
}

var limits = annals.Limits{MaxEvents: maxEvents, MaxBytes: maxBytes, MaxIDBytes: maxIDBytes}

// Capabilities claim everything but ManySnapshots.
func (view) Capabilities() annals.Capabilities {
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, IDQueries: true, Offsets: true,
		CommitSnapshot: true, Tags: true, Metadata: true, StateMetadata: true, Times: true, EventTimes: true, SnapshotQueries: true, TagQueries: true,
		DeletesStates: true, StateEvents: true, IdempotentState: true, Repeatable: true, FenceAfterDelete: true, GuardsReads: true,
		Limits: limits,
	}
}

func (v view) Journal() annals.Journal         { return journal{v} }
func (v view) Snapshots() annals.SnapshotStore { return snapshots{v} }
func (v view) States() annals.StateStore       { return states{v} }
func (v view) Query() annals.Query             { return query{v} }
func (v view) Offsets() annals.OffsetStore     { return offsets{v} }

func (view) Fault(err error) error { return &annals.Error{Kind: kindOf(err), Err: err} }

func (v view) Close() error { return v.b.close() }

// once counts a query, a group of queries of one moment, or a transaction.
func once(ctx context.Context) { driver.Count(ctx, annals.Result{Requests: 1}) }
