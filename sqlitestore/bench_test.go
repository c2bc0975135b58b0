package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// BenchmarkAppend appends durably from several writers, each with an entity of its own. It reports how many events share one
// fsync, and how many times faster that is than one transaction per append on the plain driver. The two are measured alternately.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b, sqlitestore.Options{})
			plain := openPlain(b)
			last := make([]annals.SeqNr, writers)
			var ours, theirs time.Duration
			var appends, inserts int
			for b.Loop() {
				begun := time.Now()
				appends += everyWriter(b, writers, func(w int) error {
					r, err := s.Journal().Append(b.Context(), benchCommit(w, last[w]))
					last[w] = r.SeqNr
					return err
				})
				ours += time.Since(begun)
				begun = time.Now()
				for range min(writers, 16) {
					inserts++
					if err := plain.insert(b.Context(), inserts); err != nil {
						b.Fatal(err)
					}
				}
				theirs += time.Since(begun)
			}
			commits, writes := sqlitestore.Commits(s)
			b.ReportMetric(float64(writes)/float64(commits), "events/fsync")
			b.ReportMetric(theirs.Seconds()/float64(inserts)/(ours.Seconds()/float64(appends)), "x-plain")
			b.ReportMetric(float64(appends)/ours.Seconds(), "events/s")
		})
	}
}

// everyWriter runs write a few times on each of n goroutines and counts.
func everyWriter(b *testing.B, n int, write func(w int) error) int {
	const each = 8
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			for range each {
				if err := write(w); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return n * each
}

// BenchmarkReplay replays streams of several lengths, alternately with a SELECT of the same rows on the plain driver.
func BenchmarkReplay(b *testing.B) {
	for _, events := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "annals.db")
			s := openAt(b, path, sqlitestore.Options{})
			for last := annals.SeqNr(0); last < annals.SeqNr(events); {
				c := benchCommit(0, last)
				for len(c.Events) < min(1000, events-int(last)) {
					c.Events = append(c.Events, c.Events[0])
				}
				last = mustAppend(b, s, c).SeqNr
			}
			plain := plainDriver{db: s.DB()}
			if err := plain.prepareSelect(b.Context()); err != nil {
				b.Fatal(err)
			}
			var ours, theirs time.Duration
			for b.Loop() {
				begun, n := time.Now(), 0
				for _, err := range s.Journal().Replay(b.Context(), "Bench|0", 1, annals.MaxSeqNr) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				ours += time.Since(begun)
				begun = time.Now()
				m, err := plain.selectAll(b.Context(), "Bench|0")
				if err != nil || m != events || n != events {
					b.Fatal(n, m, err)
				}
				theirs += time.Since(begun)
			}
			b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x-plain")
		})
	}
}

var benchPayload = make([]byte, 128)

func benchCommit(w int, after annals.SeqNr) annals.Commit {
	return annals.Commit{
		ID: annals.PersistenceID(fmt.Sprintf("Bench|%d", w)), After: after, WriteID: annals.NewWriteID(),
		Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Manifest: "posted.v1", Data: benchPayload}}},
	}
}

// plainDriver is what a program without a store would write: the same rows into a table with the same columns.
type plainDriver struct {
	db            *sql.DB
	insertStmt    *sql.Stmt
	selectAllStmt *sql.Stmt
}

func openPlain(b *testing.B) *plainDriver {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "plain.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	for _, text := range []string{`CREATE TABLE event_journal (slice INTEGER NOT NULL, entity_type TEXT NOT NULL,
			persistence_id TEXT NOT NULL, seq_nr INTEGER NOT NULL, db_timestamp INTEGER NOT NULL, event_ser_id INTEGER NOT NULL,
			event_ser_manifest TEXT NOT NULL, event_payload BLOB NOT NULL, deleted INTEGER NOT NULL DEFAULT 0, writer TEXT NOT NULL,
			adapter_manifest TEXT NOT NULL, tags TEXT, meta_ser_id INTEGER, meta_ser_manifest TEXT, meta_payload BLOB,
			PRIMARY KEY (persistence_id, seq_nr)) STRICT`,
		`CREATE INDEX event_journal_time_idx ON event_journal (db_timestamp, seq_nr, slice, entity_type) WHERE deleted = 0`} {
		if _, err := db.Exec(text); err != nil {
			b.Fatal(err)
		}
	}
	p := &plainDriver{db: db}
	if p.insertStmt, err = db.Prepare(`INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
		event_ser_id, event_ser_manifest, event_payload, writer, adapter_manifest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')`); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *plainDriver) insert(ctx context.Context, n int) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	id := annals.PersistenceID(fmt.Sprintf("Bench|%d", n%64))
	stmt := tx.StmtContext(ctx, p.insertStmt)
	defer stmt.Close()
	if _, err := stmt.ExecContext(ctx, id.Slice(), "Bench", string(id), n, time.Now().UnixMicro(), 1, "posted.v1",
		benchPayload, "0b5f2f6e-3a55-4c3f-9b39-6a3c0f1f7e11"); err != nil {
		return err
	}
	return tx.Commit()
}

func (p *plainDriver) prepareSelect(ctx context.Context) (err error) {
	p.selectAllStmt, err = p.db.PrepareContext(ctx, `SELECT seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload,
		deleted, writer, adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload
		FROM event_journal WHERE persistence_id = ? ORDER BY seq_nr`)
	return err
}

func (p *plainDriver) selectAll(ctx context.Context, id string) (n int, err error) {
	rows, err := p.selectAllStmt.QueryContext(ctx, id)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var (
		seqNr, micros, serID, deleted int64
		manifest, writer, adapter     string
		data, metaData                []byte
		tags, metaManifest            sql.NullString
		metaID                        sql.NullInt64
	)
	for rows.Next() {
		if err := rows.Scan(&seqNr, &micros, &serID, &manifest, &data, &deleted, &writer, &adapter, &tags, &metaID, &metaManifest, &metaData); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}
