package sqlitestore_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/verify"
)

// damaged is a store on a file in which each kind of damage is.
func damaged(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	ctx, path := tb.Context(), filepath.Join(tb.TempDir(), "annals.db")
	o := sqlitestore.Options{Checksums: true,
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Own": {Table: "own_states"}},
		Init:       executing(sqlitestore.StateTable("own_states"))}
	s, db := openAt(tb, path, o), raw(tb, path)
	newest := verifytest.Fill(tb, s,
		[]annals.PersistenceID{"sound", "T|sound", "T|missing", "T|first", "T|newest", "T|unreadable", "T|tags", "T|checksum", "T|snapshot", "T|sum of snapshot", "T|orphan", "T|slice", "T|type", "T|snapshot slice", "T|moved", "T|zero"},
		[]annals.PersistenceID{"S|sound", "S|unreadable", "S|checksum", "S|old", "S|type", "S|writes", "S|blob", "S|revision", "Own|sound", "Own|elsewhere", "Other|in own"}, nil)
	if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{{Time: newest.Time, ID: "T|sound", SeqNr: 5}}}); err != nil {
		tb.Fatal(err)
	}
	for _, text := range []string{
		"DELETE FROM event_journal WHERE persistence_id = 'T|missing' AND seq_nr IN (2, 4)",
		"DELETE FROM event_journal WHERE persistence_id = 'T|first' AND seq_nr = 1",
		"DELETE FROM event_journal WHERE persistence_id = 'T|newest' AND seq_nr = 5",
		"UPDATE event_journal SET writer = 'nobody' WHERE persistence_id = 'T|unreadable' AND seq_nr IN (2, 3)",
		"UPDATE event_journal SET tags = '{' WHERE persistence_id = 'T|tags' AND seq_nr = 4",
		"UPDATE event_journal SET event_payload = x'00' WHERE persistence_id = 'T|checksum' AND seq_nr = 4",
		"UPDATE event_journal SET seq_nr = 0 WHERE persistence_id = 'T|zero' AND seq_nr = 5",
		"UPDATE durable_state SET writes = 'x' WHERE persistence_id = 'S|writes'",
		"UPDATE durable_state SET writes = x'00' WHERE persistence_id = 'S|blob'",
		"UPDATE durable_state SET revision = 'x' WHERE persistence_id = 'S|revision'",
		"UPDATE snapshot SET ser_id = 0 WHERE persistence_id = 'T|snapshot'",
		"UPDATE snapshot SET snapshot = x'00' WHERE persistence_id = 'T|sum of snapshot'",
		"DELETE FROM event_journal WHERE persistence_id = 'T|orphan'",
		"UPDATE event_journal SET slice = (slice + 1) % 1024 WHERE persistence_id = 'T|slice' AND seq_nr IN (2, 3)",
		"UPDATE event_journal SET entity_type = 'U' WHERE persistence_id = 'T|type' AND seq_nr = 5",
		"UPDATE snapshot SET slice = (slice + 1) % 1024 WHERE persistence_id = 'T|snapshot slice'",
		"UPDATE snapshot SET db_timestamp = db_timestamp + 1 WHERE persistence_id = 'T|moved'",
		"UPDATE durable_state SET revision = -1 WHERE persistence_id = 'S|unreadable'",
		"UPDATE durable_state SET state_payload = x'00' WHERE persistence_id = 'S|checksum'",
		"UPDATE durable_state SET revision = 1, crc32c = NULL WHERE persistence_id = 'S|old'",
		"UPDATE durable_state SET entity_type = 'T' WHERE persistence_id = 'S|type'",
		`INSERT INTO durable_state SELECT * FROM "own_states" WHERE persistence_id = 'Own|elsewhere'`,
		`INSERT INTO "own_states" SELECT * FROM durable_state WHERE persistence_id = 'Other|in own'`,
		"UPDATE offsets SET slice = (slice + 1) % 1024 WHERE persistence_id = 'T|sound'",
	} {
		mustExec(tb, db, text)
	}
	if err := errors.Join(s.Close(), db.Close()); err != nil {
		tb.Fatal(err)
	}
	breakHeader(tb, path)
	return openAt(tb, path, o), []string{"missing T|missing 2 2", "missing T|missing 4 4", "missing T|first 1 1",
			"unreadable T|unreadable 2 2", "unreadable T|unreadable 3 3", "unreadable T|tags 4 4", "checksum T|checksum 4 4", "snapshot T|snapshot 3 3", "checksum T|sum of snapshot 3 3",
			"orphan T|orphan 3 3", "key T|slice 2 3", "key T|type 5 5", "key T|snapshot slice 3 3", "index T|moved 3 3", "key T|zero 0 0", "state S|writes 2 2", "state S|blob 2 2", "state S|revision 1 1",
			"state S|unreadable 1 1", "checksum S|checksum 2 2", "state S|old 1 2", "key S|type 2 2", "key Own|elsewhere 2 2", "key Other|in own 2 2", "key T|sound 0 0", "file  0 0"},
		map[ability.Code]string{
			ability.Hole:       "no other system writes to the tables, so a number without a row is lost",
			ability.Doubled:    "the primary key has the number",
			ability.Incomplete: "each event has a row, and nothing else tells what was written together",
			ability.Head:       "the last number is that of the last row",
		}
}

// breakHeader makes the number of free pages in the header of the file wrong.
func breakHeader(tb testing.TB, path string) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{0, 0, 0, 99}, 36)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// SQLite's own check finds rows that its index lacks.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, sqlitestore.Options{})
	mustAppend(t, s, commit("T|1", 0, 3))
	for _, texts := range [][]string{
		{"PRAGMA writable_schema = ON", "CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'event_journal_time_idx'", "DELETE FROM sqlite_schema WHERE name = 'event_journal_time_idx'"},
		{"UPDATE event_journal SET db_timestamp = db_timestamp + 5 WHERE seq_nr = 3"},
		{"PRAGMA writable_schema = ON", "INSERT INTO sqlite_schema SELECT * FROM kept"},
	} {
		db := raw(t, path)
		for _, text := range texts {
			mustExec(t, db, text)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	verifytest.Want(t, openAt(t, path, sqlitestore.Options{CreateTables: new(false)}), verify.Options{}, "index  0 0")
	verifytest.Want(t, s, verify.Options{IDs: []annals.PersistenceID{"T|1"}})
}

// An event that is marked as deleted behind others is found with its number.
func TestDeletedBehindOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	mustAppend(t, s, commit("T|1", 0, 3))
	mustExec(t, db, "UPDATE event_journal SET deleted = 1 WHERE seq_nr = 2")
	verifytest.Want(t, s, verify.Options{}, "unreadable T|1 2 2")
}
