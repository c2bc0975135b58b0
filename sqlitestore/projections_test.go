package sqlitestore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/sqlitestore"
)

func TestProjections(t *testing.T) {
	t.Parallel()
	followtest.Projections(t, func(t *testing.T) followtest.Target[*sql.Tx] {
		path := filepath.Join(t.TempDir(), "annals.db")
		s := openAt(t, path, sqlitestore.Options{Init: executing("CREATE TABLE IF NOT EXISTS entries (id TEXT, seq_nr INTEGER, stamp INTEGER)")})
		db := raw(t, path)
		return followtest.Target[*sql.Tx]{
			Store: s, Beside: openAt(t, path, sqlitestore.Options{}),
			Add: func(ctx context.Context, tx *sql.Tx, e followtest.Entry) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES (?, ?, ?)", string(e.ID), int64(e.SeqNr), e.Stamp)
				return err
			},
			Breaks: map[string]func(ctx context.Context, tx *sql.Tx){
				"Rollback": func(_ context.Context, tx *sql.Tx) { _ = tx.Rollback() },
			},
			Entries: func(ctx context.Context) (all []followtest.Entry, err error) {
				rows, err := db.QueryContext(ctx, "SELECT id, seq_nr, stamp FROM entries")
				if err != nil {
					return nil, err
				}
				defer func() { _ = rows.Close() }()
				for rows.Next() {
					var e followtest.Entry
					if err := rows.Scan(&e.ID, &e.SeqNr, &e.Stamp); err != nil {
						return nil, err
					}
					all = append(all, e)
				}
				return all, rows.Err()
			},
		}
	})
}

// What was saved is loaded from then on, also while another save replaces it by a Through that covers it.
func TestProgressWhileItIsSaved(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	const rounds = 150
	var saved atomic.Int64 // the greatest number of both that was saved
	save := func(p annals.Progress) {
		p.Projection = "p"
		if err := s.Offsets().Save(t.Context(), p); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for n := int64(1); n <= rounds; n++ {
			at := annals.Offset{Time: time.UnixMicro(n), SeqNr: annals.SeqNr(n), ID: "T|1"}
			other := annals.Offset{Time: at.Time, SeqNr: at.SeqNr, ID: "T|2"}
			save(annals.Progress{Offsets: []annals.Offset{at, other}})
			saved.Store(n)
			save(annals.Progress{Through: other})
		}
	})
	for n := int64(0); n < rounds && !t.Failed(); {
		n = saved.Load()
		positions, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
		if err != nil || len(positions) != 1 || positions[0].Through.SeqNr < annals.SeqNr(n) && len(positions[0].Offsets) == 0 {
			t.Errorf("after number %d was saved: %v, %v", n, positions, err)
		}
		handled, err := s.Offsets().Handled(t.Context(), "p", "T|1", "T|2")
		if err != nil || min(handled[0].SeqNr, handled[1].SeqNr) < annals.SeqNr(n) {
			t.Errorf("after number %d was saved: %v, %v", n, handled, err)
		}
	}
}
