package sqlitestore_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
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

// Whatever row of an entity is lost, its events are read as before, or the read is ErrCorrupt. The exceptions are the newest row, which has
// the last number, and a snapshot whose events are deleted.
func TestLostRows(t *testing.T) {
	t.Parallel()
	for _, saved := range []annals.SeqNr{0, 6} {
		for _, deleted := range []annals.SeqNr{0, 4, 6, 9} {
			for _, old := range []annals.SeqNr{0, 3, 9} { // so many rows are old: a delete removes them
				t.Run(fmt.Sprintf("snapshot %d, %d deleted, %d old", saved, deleted, old), func(t *testing.T) {
					t.Parallel()
					path := filepath.Join(t.TempDir(), "annals.db")
					s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
					const id annals.PersistenceID = "T|1"
					for n := range annals.SeqNr(4) {
						mustAppend(t, s, commit(id, 3*n, 3))
					}
					if saved > 0 {
						if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: saved, Payload: payload("s")}); err != nil {
							t.Fatal(err)
						}
					}
					mustExec(t, db, `UPDATE event_journal SET db_timestamp = db_timestamp - ? WHERE seq_nr <= ?`, sqlitestore.KeepDeleted.Microseconds(), int64(old))
					if err := s.Journal().DeleteTo(t.Context(), id, deleted); err != nil {
						t.Fatal(err)
					}
					mustExec(t, db, `CREATE TABLE kept AS SELECT * FROM event_journal`)
					lost.Rows(t, s, id, deleted, 12, func(n annals.SeqNr) {
						mustExec(t, db, `DELETE FROM event_journal WHERE seq_nr = ?`, int64(n))
					}, func() { mustExec(t, db, `INSERT OR IGNORE INTO event_journal SELECT * FROM kept`) })
				})
			}
		}
	}
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

// CheckAll goes over all entities and says which of them have lost events.
func TestCheckAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	for _, id := range []annals.PersistenceID{"T|1", "T|2", "T|3", "U|1"} {
		mustAppend(t, s, commit(id, 0, 4))
	}
	mustExec(t, db, `DELETE FROM event_journal WHERE persistence_id = 'T|2' AND seq_nr = 1`)
	for entityType, want := range map[string]int{"": 4, "T": 3} {
		checked := 0
		for c, err := range ability.CheckAll(t.Context(), s, s.Query().IDs(t.Context(), entityType, "")) {
			if err != nil {
				t.Fatal(err)
			}
			if checked++; (c.ID == "T|2") != errors.Is(c.Err, annals.ErrCorrupt) || len(c.Holes) > 0 {
				t.Errorf("%+v", c)
			}
		}
		if checked != want {
			t.Errorf("type %q: %d entities, want %d", entityType, checked, want)
		}
	}
	for _, err := range ability.CheckAll(t.Context(), driver.Unsupported{}, s.Query().IDs(t.Context(), "", "")) {
		wantKind(t, err, annals.ErrUnsupported)
	}
}
