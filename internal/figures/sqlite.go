package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
		{
			Name:  "sqlite-group-commit-64",
			About: "durable appends a second of 64 concurrent writers, divided by one transaction per INSERT on the bare driver",
			Goal:  AtLeast(8),
			Run:   groupFigure,
		},
		{
			Name:  "sqlite-append-1",
			About: "one INSERT per transaction on the bare driver, its median time divided by that of a durable append of one writer",
			Goal:  AtLeast(0.9),
			Run:   loneFigure,
		},
		{
			Name:  "sqlite-replay-10000",
			About: "a replay of 10,000 events, its speed divided by that of a SELECT of the same rows on the bare driver",
			Goal:  AtLeast(0.95),
			Run:   replayFigure,
		},
		{
			Name:  "sealed-append",
			About: "the median time of a durable append of an event that is sealed with the key of a person, divided by that of one that is not",
			Goal:  AtMost(1.2),
			Run:   sealedFigure,
		},
	}
}

// groupFigure alternates in short turns, so that a disturbance affects both sides.
func groupFigure(ctx context.Context) (ratio float64, err error) {
	b, err := openBench(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	const writers, each, inserts = 64, 10, 10
	last := make([]annals.SeqNr, writers)
	var ours, theirs time.Duration
	for range 40 {
		begun := time.Now()
		if err := b.appendFrom(ctx, last, each); err != nil {
			return 0, err
		}
		ours += time.Since(begun)
		begun = time.Now()
		for range inserts {
			if err := b.insert(ctx); err != nil {
				return 0, err
			}
		}
		theirs += time.Since(begun)
	}
	return writers * each / ours.Seconds() / (inserts / theirs.Seconds()), nil
}

// loneFigure alternates after each write and compares medians: both sides wait for the disk, whose delays would hide the difference.
func loneFigure(ctx context.Context) (ratio float64, err error) {
	b, err := openBench(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var ours, theirs []float64
	last := make([]annals.SeqNr, 1)
	for range 500 {
		begun := time.Now()
		if err := b.appendAs(ctx, 0, last, 1); err != nil {
			return 0, err
		}
		ours = append(ours, time.Since(begun).Seconds())
		begun = time.Now()
		if err := b.insert(ctx); err != nil {
			return 0, err
		}
		theirs = append(theirs, time.Since(begun).Seconds())
	}
	return median(theirs) / median(ours), nil
}

// sealedFigure encodes and appends one event of each kind in turns. The key is in memory but for the first event.
func sealedFigure(ctx context.Context) (ratio float64, err error) {
	b, err := openBench(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	master, err := sealed.AES(make([]byte, 32))
	if err != nil {
		return 0, err
	}
	keys, err := sealed.NewKeys(b.store, master, sealed.Options{})
	if err != nil {
		return 0, err
	}
	plain := codec.JSON[string]("posted.v1")
	codecs := []codec.Codec[string]{plain, sealed.Payloads(plain, keys, func(string) string { return "7" }, func(string) string { return "" })}
	text := strings.Repeat("x", len(benchPayload))
	var times [2][]float64
	for n := range annals.SeqNr(500) {
		for i, c := range codecs {
			begun := time.Now()
			commit := benchCommit(i, n)
			if commit.Events[0].Payload, err = c.Encode(text); err != nil {
				return 0, err
			}
			if _, err := b.store.Journal().Append(ctx, commit); err != nil {
				return 0, err
			}
			times[i] = append(times[i], time.Since(begun).Seconds())
		}
	}
	return median(times[1]) / median(times[0]), nil
}

// replayFigure takes medians, because other programs disturb single turns.
func replayFigure(ctx context.Context) (ratio float64, err error) {
	b, err := openBench(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	const events = 10_000
	for last := annals.SeqNr(0); last < events; {
		c := benchCommit(0, last)
		for len(c.Events) < 100 {
			c.Events = append(c.Events, c.Events[0])
		}
		r, err := b.store.Journal().Append(ctx, c)
		if err != nil {
			return 0, err
		}
		last = r.SeqNr
	}
	var ours, theirs []float64
	for range 20 {
		begun, n := time.Now(), 0
		for _, err := range b.store.Journal().Replay(ctx, benchID(0), 1, annals.MaxSeqNr) {
			if err != nil {
				return 0, err
			}
			n++
		}
		ours = append(ours, time.Since(begun).Seconds())
		begun = time.Now()
		m, err := b.selectAll(ctx, benchID(0))
		if err != nil {
			return 0, err
		}
		theirs = append(theirs, time.Since(begun).Seconds())
		if n != events || m != events {
			return 0, fmt.Errorf("of %d events %d were replayed and %d selected", events, n, m)
		}
	}
	return median(theirs) / median(ours), nil
}

// sqlitePragmas are the settings of the store's own connection.
const sqlitePragmas = "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=wal_autocheckpoint(4096)&_pragma=cache_size(-16384)&_txlock=immediate"

// sqliteBench is a store and a table like its journal, which the bare driver writes.
type sqliteBench struct {
	dir      string
	store    *sqlitestore.Store
	plain    *sql.DB
	inserts  *sql.Stmt
	inserted int
}

func openBench(ctx context.Context) (_ *sqliteBench, err error) {
	b := &sqliteBench{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "annals-figures-"); err != nil {
		return nil, err
	}
	if b.store, err = sqlitestore.Open(ctx, filepath.Join(b.dir, "annals.db"), sqlitestore.Options{}); err != nil {
		return nil, err
	}
	if b.plain, err = sql.Open("sqlite", "file:"+filepath.Join(b.dir, "plain.db")+sqlitePragmas); err != nil {
		return nil, err
	}
	b.plain.SetMaxOpenConns(1)
	for _, name := range []string{"event_journal", "event_journal_time_idx"} {
		text := ""
		if err := b.store.DB().QueryRowContext(ctx, `SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&text); err != nil {
			return nil, err
		}
		if _, err := b.plain.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	const insert = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
		event_ser_id, event_ser_manifest, event_payload, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	if b.inserts, err = b.plain.PrepareContext(ctx, insert); err != nil {
		return nil, err
	}
	return b, nil
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

// appendFrom appends on one goroutine for each entry of last.
func (b *sqliteBench) appendFrom(ctx context.Context, last []annals.SeqNr, each int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(last))
	for w := range last {
		wg.Go(func() { errs[w] = b.appendAs(ctx, w, last, each) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *sqliteBench) appendAs(ctx context.Context, w int, last []annals.SeqNr, each int) error {
	for range each {
		r, err := b.store.Journal().Append(ctx, benchCommit(w, last[w]))
		if err != nil {
			return err
		}
		last[w] = r.SeqNr
	}
	return nil
}

var benchPayload = make([]byte, 128)

func benchID(w int) annals.PersistenceID {
	return annals.PersistenceID(fmt.Sprintf("Bench|%d", w))
}

func benchCommit(w int, after annals.SeqNr) annals.Commit {
	return annals.Commit{
		ID: benchID(w), After: after, WriteID: annals.NewWriteID(),
		Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Manifest: "posted.v1", Data: benchPayload}}},
	}
}

// insert is one transaction with one row, by a prepared statement.
func (b *sqliteBench) insert(ctx context.Context) (err error) {
	b.inserted++
	id := benchID(b.inserted % 64)
	tx, err := b.plain.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	stmt := tx.StmtContext(ctx, b.inserts)
	defer func() { _ = stmt.Close() }()
	if _, err := stmt.ExecContext(ctx, id.Slice(), id.Type(), string(id), b.inserted, time.Now().UnixMicro(),
		1, "posted.v1", benchPayload, annals.NewWriteID().String()); err != nil {
		return err
	}
	return tx.Commit()
}

// selectAll scans the rows of one entity, column by column as a program without a store would.
func (b *sqliteBench) selectAll(ctx context.Context, id annals.PersistenceID) (n int, err error) {
	const text = `SELECT seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer,
		adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload
		FROM event_journal WHERE persistence_id = ? ORDER BY seq_nr`
	rows, err := b.store.DB().QueryContext(ctx, text, string(id))
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
