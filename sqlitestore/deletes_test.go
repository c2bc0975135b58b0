package sqlitestore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/lost"
	"github.com/annals-go/annals/sqlitestore"
)

// Deleted events stay as empty rows as long as a retry may arrive. Then all are removed except the newest.
func TestDeletedRows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	old, young := commit("T|1", 0, 5), commit("T|1", 5, 3)
	mustAppend(t, s, old)
	mustAppend(t, s, young)
	mustExec(t, db, `UPDATE event_journal SET db_timestamp = db_timestamp - ? WHERE seq_nr <= 5`, sqlitestore.KeepDeleted.Microseconds())
	deleteTo := func(to annals.SeqNr) {
		t.Helper()
		if err := s.Journal().DeleteTo(t.Context(), "T|1", to); err != nil {
			t.Fatal(err)
		}
	}
	deleteTo(7)
	if n := count(t, db, `SELECT count(*) FROM event_journal WHERE seq_nr <= 5`); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	const stripped = `SELECT count(*) FROM event_journal WHERE deleted > 0 AND length(event_payload) = 0 AND event_ser_id = 0
		AND tags IS NULL AND writer = ?`
	if n := count(t, db, stripped, young.WriteID.String()); n != 2 {
		t.Errorf("%d young rows are stripped, want 2", n)
	}
	if got := numbers(t, s, "T|1"); len(got) != 1 || got[0] != 8 {
		t.Errorf("left are %v", got)
	}
	deleteTo(annals.MaxSeqNr)
	if r := mustAppend(t, s, young); !r.Repeated || r.SeqNr != 8 {
		t.Errorf("a retry after the delete: %+v", r)
	}
	_, err := s.Journal().Append(t.Context(), commit("T|1", 5, 1))
	wantKind(t, err, annals.ErrConflict)

	mustExec(t, db, `UPDATE event_journal SET db_timestamp = db_timestamp - ?`, sqlitestore.KeepDeleted.Microseconds())
	deleteTo(annals.MaxSeqNr)
	if n := count(t, db, `SELECT count(*) FROM event_journal`); n != 1 {
		t.Errorf("%d rows are left, want the newest alone", n)
	}
	if r := mustAppend(t, s, young); !r.Repeated || r.SeqNr != 8 {
		t.Errorf("a very late retry, which only the newest row shows: %+v", r)
	}
	_, err = s.Journal().Append(t.Context(), old)
	wantKind(t, err, annals.ErrConflict)
	if r := mustAppend(t, s, commit("T|1", 8, 1)); r.SeqNr != 9 {
		t.Errorf("the next number is %d", r.SeqNr)
	}
}

// A long stream is deleted in many transactions, so that other writes are executed in between. The newest row stays.
func TestDeleteToInBatches(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	const events = 3*sqlitestore.DeleteBatch + 7
	mustAppend(t, s, commit("T|1", 0, events))
	before, _ := sqlitestore.Commits(s)
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	if after, _ := sqlitestore.Commits(s); after-before != 4 {
		t.Errorf("%d transactions, want 4", after-before)
	}
	if got := numbers(t, s, "T|1"); got != nil {
		t.Errorf("%d events are left", len(got))
	}
	if err := s.Journal().DeleteTo(t.Context(), "T|unknown", 5); err != nil {
		t.Error(err)
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), "T|unknown"); last != 0 || err != nil {
		t.Errorf("deleting an unknown entity left number %d, %v", last, err)
	}
}

// Whatever row of an entity is lost, its events are read as before, or the read is ErrCorrupt. The exceptions are in docs/stores/sqlite.md.
func TestLostRows(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4} { // of a commit
		for _, saved := range []annals.SeqNr{0, 6} {
			for _, deleted := range []annals.SeqNr{0, 4, 6, 9, 12} {
				for _, old := range []annals.SeqNr{0, 3, 12} { // so many rows are old: a delete removes them
					t.Run(fmt.Sprintf("commits of %d, snapshot %d, %d deleted, %d old", size, saved, deleted, old), func(t *testing.T) {
						t.Parallel()
						const id annals.PersistenceID = "T|1"
						f := newLosing(t, id)
						for n := annals.SeqNr(0); n < 12; n += annals.SeqNr(size) {
							c := commit(id, n, size)
							c.Events[0].Tags = []string{"tag"}
							mustAppend(t, f.s, c)
						}
						unnoticed := map[string]string{"event_journal 12": "the newest row"}
						if saved > 0 {
							if err := f.s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: saved, Payload: payload("s")}); err != nil {
								t.Fatal(err)
							}
							if deleted > 0 {
								unnoticed["snapshot 6"] = "a snapshot whose events are deleted"
							}
						}
						mustExec(t, f.db, `UPDATE event_journal SET db_timestamp = db_timestamp - ? WHERE seq_nr <= ?`, sqlitestore.KeepDeleted.Microseconds(), int64(old))
						if err := f.s.Journal().DeleteTo(t.Context(), id, deleted); err != nil {
							t.Fatal(err)
						}
						f.loseRows(unnoticed)
					})
				}
			}
		}
	}
	t.Run("a state with events", func(t *testing.T) {
		t.Parallel()
		f := newLosing(t, "T|1")
		for n := range annals.SeqNr(6) {
			event := commit(f.id, n, 1).Events[0]
			if _, err := f.s.States().Put(t.Context(), annals.StateWrite{ID: f.id, After: n, Payload: payload("state"), Event: &event}); err != nil {
				t.Fatal(err)
			}
		}
		f.loseRows(map[string]string{"event_journal 6": "the newest row", "durable_state 6": "a state"})
	})
}

// losing is a store that loses rows of an entity.
type losing struct {
	*testing.T
	id annals.PersistenceID
	s  *sqlitestore.Store
	db *sql.DB
}

func newLosing(t *testing.T, id annals.PersistenceID) losing {
	t.Helper()
	path := filepath.Join(t.TempDir(), "annals.db")
	return losing{t, id, openAt(t, path, sqlitestore.Options{}), raw(t, path)}
}

// loseRows loses one row after another.
func (f losing) loseRows(unnoticed map[string]string) {
	f.Helper()
	var rows []string
	numbers := map[string]string{"event_journal": "seq_nr", "snapshot": "seq_nr", "durable_state": "revision"}
	for table, number := range numbers {
		mustExec(f, f.db, `CREATE TABLE kept_`+table+` AS SELECT * FROM `+table)
		found, err := f.db.QueryContext(f.Context(), `SELECT '`+table+` ' || `+number+` FROM `+table)
		if err != nil {
			f.Fatal(err)
		}
		for found.Next() {
			var row string
			if err := found.Scan(&row); err != nil {
				f.Fatal(err)
			}
			rows = append(rows, row)
		}
		if err := errors.Join(found.Err(), found.Close()); err != nil {
			f.Fatal(err)
		}
	}
	var table string
	lost.Rows(f, f.s, f.id, rows, func(row string) {
		name, n, _ := strings.Cut(row, " ")
		table = name
		mustExec(f, f.db, `DELETE FROM `+table+` WHERE `+numbers[table]+` = CAST(? AS INTEGER)`, n)
	}, func() { mustExec(f, f.db, `INSERT OR IGNORE INTO `+table+` SELECT * FROM kept_`+table) }, unnoticed)
}

// A missing event that was not deleted is ErrCorrupt, wherever a page ends.
func TestReplayFindsHoles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	const events = 2*sqlitestore.PageRows + 10
	for _, hole := range []annals.SeqNr{5, sqlitestore.PageRows + 1, sqlitestore.PageRows + 2, events - 1} {
		id := annals.PersistenceID("T|" + string(rune('a'+hole%26)))
		mustAppend(t, s, commit(id, 0, events))
		mustExec(t, db, `DELETE FROM event_journal WHERE persistence_id = ? AND seq_nr = ?`, string(id), int64(hole))
		var last annals.SeqNr
		var end error
		for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
			if end = err; err == nil {
				last = e.SeqNr
			}
		}
		wantKind(t, end, annals.ErrCorrupt)
		if last >= hole {
			t.Errorf("event %d was yielded after the hole at %d", last, hole)
		}
	}
}

// A lost row of what a projection has handled makes it handle events again. It does not skip any.
func TestLostProgress(t *testing.T) {
	t.Parallel()
	f := newLosing(t, "T|1")
	check := lost.Progress(t, f.s.Offsets())
	for table, key := range map[string]string{"offsets": "persistence_id", "offset_epochs": "slice_from"} {
		mustExec(t, f.db, "CREATE TABLE kept_"+table+" AS SELECT * FROM "+table)
		for i := range count(t, f.db, "SELECT count(*) FROM kept_"+table) {
			mustExec(t, f.db, "DELETE FROM "+table+" WHERE "+key+" = (SELECT "+key+" FROM kept_"+table+" ORDER BY "+key+" LIMIT 1 OFFSET ?)", i)
			check(fmt.Sprintf("%d of %s", i, table), f.s.Offsets())
			mustExec(t, f.db, "INSERT OR IGNORE INTO "+table+" SELECT * FROM kept_"+table)
		}
	}
}

// Events after skipped numbers are deleted as fast as others, also those with the greatest numbers.
func TestDeleteAfterSkip(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	skipper, err := ability.Of[ability.Skipper](s)
	if err != nil {
		t.Fatal(err)
	}
	after := annals.SeqNr(0)
	for _, to := range []annals.SeqNr{5, 1 << 40, annals.MaxSeqNr - 2} {
		if err := skipper.SkipTo(t.Context(), "T|1", after, to); err != nil {
			t.Fatal(err)
		}
		after = mustAppend(t, s, commit("T|1", to, 2)).SeqNr
	}
	if got := numbers(t, s, "T|1"); len(got) != 2 || got[1] != annals.MaxSeqNr {
		t.Errorf("got %v", got)
	}
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
	if groups, _ := sqlitestore.Commits(s); groups > 15 {
		t.Errorf("%d transactions", groups)
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); last != annals.MaxSeqNr || len(numbers(t, s, "T|1")) > 0 || err != nil {
		t.Errorf("the last number is %d, %v", last, err)
	}
	_, err = s.Journal().Append(t.Context(), commit("T|1", annals.MaxSeqNr, 1))
	wantKind(t, err, annals.ErrInvalid)
}
