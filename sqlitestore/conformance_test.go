package sqlitestore_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open:         func(tb testing.TB) annals.Store { return open(tb, sqlitestore.Options{}) },
		OpenObserved: openObserved,
		Reopen: func(tb testing.TB, s annals.Store) annals.Store {
			return openAt(tb, sqlitestore.Path(s.(*sqlitestore.Store)), sqlitestore.Options{})
		},
		LoseEvent: func(tb testing.TB, s annals.Store, id annals.PersistenceID, n annals.SeqNr) {
			db := raw(tb, sqlitestore.Path(s.(*sqlitestore.Store)))
			mustExec(tb, db, "DELETE FROM event_journal WHERE persistence_id = ? AND seq_nr = ?", string(id), int64(n))
			if err := db.Close(); err != nil {
				tb.Error(err)
			}
		},
		LoseAnswer: moveFolder,
		Damage:     damaged,
	})
}

// moveFolder moves the folder of the file of s away at the end of the next COMMIT, and back.
func moveFolder(tb testing.TB, s annals.Store) (back func()) {
	dir := filepath.Dir(sqlitestore.Path(s.(*sqlitestore.Store)))
	err := sqlitestore.AtNextCommit(s.(*sqlitestore.Store), func() {
		if err := os.Rename(dir, dir+"-moved"); err != nil {
			tb.Error(err)
		}
	})
	if err != nil {
		tb.Error(err)
	}
	return func() {
		if err := os.Rename(dir+"-moved", dir); err != nil {
			tb.Error(err)
		}
	}
}

func openObserved(tb testing.TB, o annals.Observer) annals.Store {
	return open(tb, sqlitestore.Options{Observer: o})
}

func TestStateTypes(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{"common table": "", "own table": "thing"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunStateTypes(t, stateTypes(table))
		})
	}
}

// stateTypes returns storetest.StateTypes for states in a table, "" for the common one.
func stateTypes(table string) storetest.StateTypes[*sql.Tx] {
	const common, own = `ALTER TABLE durable_state ADD COLUMN name TEXT; ALTER TABLE durable_state ADD COLUMN points INTEGER`, "thing"
	const counters = `CREATE TABLE counters (counter TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n < 1000000))`
	return storetest.StateTypes[*sql.Tx]{
		Open: func(tb testing.TB, st annals.StateType[*sql.Tx]) annals.Store {
			text := sqlitestore.StateTable(own, "name TEXT", "points INTEGER")
			if st.Table = table; table == "" {
				text = common
			}
			return open(tb, sqlitestore.Options{
				Init:       executing(text + ";" + counters),
				StateTypes: map[string]annals.StateType[*sql.Tx]{"Thing": st},
			})
		},
		Count: func(ctx context.Context, tx *sql.Tx, counter string) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO counters VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1`, counter)
			return err
		},
		Counted: func(tb testing.TB, s annals.Store, counter string) int {
			return count(tb, s.(*sqlitestore.Store).DB(), `SELECT ifnull(sum(n), 0) FROM counters WHERE counter = '`+counter+`'`)
		},
		Refuse: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO counters VALUES ('too many', 1000000)`)
			return err
		},
	}
}
