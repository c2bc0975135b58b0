package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/sqlitestore"
)

// sqliteFigures compare sqlitestore with the bare driver: the same rows, the same table, the same pragmas, the same
// file system, both through database/sql.
func sqliteFigures() []Figure {
	return []Figure{
		{Name: "sqlite-group-commit-64", Goal: AtLeast(8), Run: onSQLite(groupFigure),
			About: "durable appends a second of 64 concurrent writers, divided by one transaction per INSERT on the bare driver"},
		{Name: "sqlite-append-cpu-64", Goal: AtMost(1.2), Run: onSQLite(groupCPUFigure),
			About: "processor time of durable appends of 64 concurrent writers, divided by that of the same rows in transactions of 64 INSERTs on the bare driver"},
		{Name: "sqlite-append-bytes-64", Goal: AtMost(1.15), Run: onSQLite(groupBytesFigure),
			About: "bytes in the write-ahead log after durable appends of 64 concurrent writers, divided by those after the same rows in transactions of 64 INSERTs on the bare driver"},
		{Name: "sqlite-append-1", Goal: AtLeast(0.9), Run: onSQLite(loneFigure),
			About: "one INSERT per transaction on the bare driver, its median time divided by that of a durable append of one writer"},
		{Name: "sqlite-recover-10", Goal: AtMost(1.2), Run: onSQLite(recoverFigure),
			About: "processor time of a recovery from 10 events, divided by that of a prepared SELECT of the same rows on the bare driver"},
		{Name: "sqlite-replay-10000", Goal: AtLeast(0.95), Run: onSQLite(replayFigure),
			About: "a replay of 10,000 events, its speed divided by that of a SELECT of the same rows on the bare driver"},
		{Name: "sealed-append", Goal: AtMost(1.2), Run: onSQLite(sealedFigure),
			About: "the median time of a durable append of an event that is sealed with the key of a person, divided by that of one that is not"},
	}
}

// onSQLite runs measure on a new store and table.
func onSQLite(measure func(ctx context.Context, b *sqliteBench) (float64, error)) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (value float64, err error) {
		b := &sqliteBench{}
		defer func() { err = errors.Join(err, b.close()) }()
		if err := b.open(ctx); err != nil {
			return 0, err
		}
		return measure(ctx, b)
	}
}

// A turn of a figure of groups is so many writers that append so many times.
const writers, each = 64, 10

func groupFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	const inserts = 10
	longer, err := ratio(40, clock, times(inserts, func() error { return b.insert(ctx, 1) }), b.appendGroups(ctx))
	return longer / inserts * writers * each, err
}

func groupCPUFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	return ratio(40, processorTime, b.appendGroups(ctx), b.insertGroups(ctx))
}

// groupBytesFigure writes less than what SQLite copies from the log to the database at once, so the log has all that was written.
func groupBytesFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	ours, theirs := b.appendGroups(ctx), b.insertGroups(ctx)
	for range 3 {
		if err := errors.Join(ours(), theirs()); err != nil {
			return 0, err
		}
	}
	var sizes [2]float64
	for i, name := range []string{"annals.db-wal", "plain.db-wal"} {
		info, err := os.Stat(filepath.Join(b.dir, name))
		if err != nil {
			return 0, err
		}
		sizes[i] = float64(info.Size())
	}
	return sizes[0] / sizes[1], nil
}

// loneFigure alternates after each write: both sides wait for the disk, whose delays would hide the difference.
func loneFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	write := b.writer()
	return ratio(500, clock, func() error { return b.insert(ctx, 1) }, func() error { return write(ctx) })
}

func recoverFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	const events = 10
	if err := appendEqual(ctx, b.store, benchID(0), events, 1, benchEvent); err != nil {
		return 0, err
	}
	recovery := func() (int, error) { return recovered(ctx, b.store, benchID(0)) }
	query := func() (int, error) { return b.selectAll(ctx, benchID(0)) }
	return ratio(40, processorTime, times(500, reading(events, recovery)), times(500, reading(events, query)))
}

func replayFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	const events = 10_000
	if err := appendEqual(ctx, b.store, benchID(0), events, 100, benchEvent); err != nil {
		return 0, err
	}
	replay := func() (int, error) {
		n, _, err := replayed(ctx, b.store, benchID(0))
		return n, err
	}
	query := func() (int, error) { return b.selectAll(ctx, benchID(0)) }
	return ratio(20, clock, reading(events, query), reading(events, replay))
}

// sealedFigure encodes and appends one event of each kind in turns. The key is in memory but for the first event.
func sealedFigure(ctx context.Context, b *sqliteBench) (float64, error) {
	master, err := sealed.AES(make([]byte, 32))
	if err != nil {
		return 0, err
	}
	keys, err := sealed.NewKeys(b.store, master, sealed.Options{})
	if err != nil {
		return 0, err
	}
	plain := codec.JSON[string]("posted.v1")
	text := strings.Repeat("x", len(benchPayload))
	side := func(w int, c codec.Codec[string]) func() error {
		n := annals.SeqNr(0)
		return func() (err error) {
			commit := benchCommit(benchID(w), n)
			if commit.Events[0].Payload, err = c.Encode(text); err == nil {
				_, err = b.store.Journal().Append(ctx, commit)
			}
			n++
			return err
		}
	}
	return ratio(500, clock, side(0, sealed.Payloads(plain, keys, func(string) string { return "7" }, func(string) string { return "" })), side(1, plain))
}

// sqlitePragmas are the settings of the store's own connection.
const sqlitePragmas = "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=wal_autocheckpoint(4096)&_pragma=cache_size(-16384)&_txlock=immediate"

// sqliteBench is a store and a table like its journal, which the bare driver writes.
type sqliteBench struct {
	dir      string
	store    *sqlitestore.Store
	plain    *sql.DB
	inserts  *sql.Stmt
	selects  *sql.Stmt // of the store's rows
	inserted int
	written  int // entities
}

func (b *sqliteBench) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "annals-figures-"); err != nil {
		return err
	}
	if b.store, err = sqlitestore.Open(ctx, filepath.Join(b.dir, "annals.db"), sqlitestore.Options{}); err != nil {
		return err
	}
	if b.plain, err = sql.Open("sqlite", "file:"+filepath.Join(b.dir, "plain.db")+sqlitePragmas); err != nil {
		return err
	}
	b.plain.SetMaxOpenConns(1)
	for _, name := range []string{"event_journal", "event_journal_time_idx"} {
		text := ""
		if err := b.store.DB().QueryRowContext(ctx, `SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&text); err != nil {
			return err
		}
		if _, err := b.plain.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	const insert = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
		event_ser_id, event_ser_manifest, event_payload, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	if b.inserts, err = b.plain.PrepareContext(ctx, insert); err != nil {
		return err
	}
	const query = `SELECT seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer,
		adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload
		FROM event_journal WHERE persistence_id = ? ORDER BY seq_nr`
	b.selects, err = b.store.DB().PrepareContext(ctx, query)
	return err
}

func (b *sqliteBench) close() error {
	var errs []error
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.plain != nil {
		errs = append(errs, b.plain.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// appendGroups is a turn of appends, each writer on a goroutine of its own.
func (b *sqliteBench) appendGroups(ctx context.Context) func() error {
	ours := newSide(writers, b.writer)
	return func() error { return ours.each(ctx, each) }
}

// insertGroups is a turn of the same rows with the bare driver.
func (b *sqliteBench) insertGroups(ctx context.Context) func() error {
	return times(each, func() error { return b.insert(ctx, writers) })
}

// writer appends to an entity of its own.
func (b *sqliteBench) writer() func(ctx context.Context) error {
	id, last := benchID(b.written), annals.SeqNr(0)
	b.written++
	return func(ctx context.Context) error {
		r, err := b.store.Journal().Append(ctx, benchCommit(id, last))
		last = r.SeqNr
		return err
	}
}

var (
	benchPayload = make([]byte, 128)
	benchEvent   = annals.Payload{SerializerID: 1, Manifest: "posted.v1", Data: benchPayload}
)

func benchID(w int) annals.PersistenceID {
	return annals.PersistenceID(fmt.Sprintf("Bench|%d", w))
}

func benchCommit(id annals.PersistenceID, after annals.SeqNr) annals.Commit {
	return annals.Commit{ID: id, After: after, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{{Payload: benchEvent}}}
}

// insert is one transaction with so many rows, each of another entity, by a prepared statement.
func (b *sqliteBench) insert(ctx context.Context, rows int) (err error) {
	tx, err := b.plain.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	stmt := tx.StmtContext(ctx, b.inserts)
	defer func() { _ = stmt.Close() }()
	for range rows {
		id := benchID(b.inserted % writers)
		b.inserted++
		if _, err := stmt.ExecContext(ctx, id.Slice(), id.Type(), string(id), b.inserted, time.Now().UnixMicro(),
			1, "posted.v1", benchPayload, annals.NewWriteID().String()); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// selectAll scans the rows of one entity, column by column as a program without a store would.
func (b *sqliteBench) selectAll(ctx context.Context, id annals.PersistenceID) (n int, err error) {
	rows, err := b.selects.QueryContext(ctx, string(id))
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	var (
		seqNr, micros, serializerID, deleted int64
		manifest, writer, adapter            string
		data, metaData                       []byte
		tags, metaManifest                   sql.NullString
		metaID                               sql.NullInt64
	)
	for rows.Next() {
		err := rows.Scan(&seqNr, &micros, &serializerID, &manifest, &data, &deleted, &writer, &adapter, &tags, &metaID, &metaManifest, &metaData)
		if err != nil {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}
