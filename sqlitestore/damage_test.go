package sqlitestore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/verify"
)

// Each kind of damage in one file is found, and nothing else.
func TestDamage(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "annals.db")
	o := sqlitestore.Options{Checksums: true,
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Own": {Table: "own_states"}},
		Init: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, sqlitestore.StateTable("own_states"))
			return err
		}}
	s, db := openAt(t, path, o), raw(t, path)
	newest := verifytest.Fill(t, s,
		[]annals.PersistenceID{"sound", "T|sound", "T|missing", "T|first", "T|newest", "T|unreadable", "T|tags", "T|checksum", "T|snapshot", "T|sum of snapshot", "T|orphan", "T|slice", "T|type", "T|snapshot slice", "T|moved", "T|two"},
		[]annals.PersistenceID{"S|sound", "S|unreadable", "S|checksum", "S|old", "S|type", "Own|sound", "Own|elsewhere", "Other|in own"}, nil)
	progress := annals.Progress{Projection: "p", Through: annals.Offset{Time: newest.Time, ID: "T|newest", SeqNr: 5}, Offsets: []annals.Offset{{Time: newest.Time.Add(1000), ID: "T|sound", SeqNr: 5}, {Time: newest.Time.Add(1000), ID: "T|two", SeqNr: 9},
		{Time: newest.Time.Add(1000), ID: "T|forgotten", SeqNr: 9}}}
	if err := s.Offsets().Save(ctx, progress); err != nil {
		t.Fatal(err)
	}
	verifytest.Want(t, s, verify.Options{Running: []string{"p"}}, "position T|two 6 9 p") // the others are damaged below
	for _, text := range []string{
		"DELETE FROM event_journal WHERE persistence_id = 'T|missing' AND seq_nr IN (2, 4)",
		"DELETE FROM event_journal WHERE persistence_id = 'T|first' AND seq_nr = 1",
		"DELETE FROM event_journal WHERE persistence_id = 'T|newest' AND seq_nr = 5",
		"UPDATE event_journal SET writer = 'nobody' WHERE persistence_id = 'T|unreadable' AND seq_nr IN (2, 3)",
		"UPDATE event_journal SET tags = '{' WHERE persistence_id = 'T|tags' AND seq_nr = 4",
		"UPDATE event_journal SET event_payload = x'00' WHERE persistence_id = 'T|checksum' AND seq_nr = 4",
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
		mustExec(t, db, text)
	}
	verifytest.Want(t, s, verify.Options{Running: []string{"p"}},
		"missing T|missing 2 2", "missing T|missing 4 4", "missing T|first 1 1", "position T|newest 5 5 p", "position T|two 6 9 p",
		"unreadable T|unreadable 2 2", "unreadable T|unreadable 3 3", "unreadable T|tags 4 4", "checksum T|checksum 4 4", "snapshot T|snapshot 3 3", "checksum T|sum of snapshot 3 3",
		"orphan T|orphan 3 3", "key T|slice 2 3", "key T|type 5 5", "key T|snapshot slice 3 3", "index T|moved 3 3",
		"state S|unreadable 1 1", "checksum S|checksum 2 2", "state S|old 1 2", "key S|type 2 2", "key Own|elsewhere 2 2", "key Other|in own 2 2", "key T|sound 0 0")
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

// Nothing is found in a sound store, whatever is written meanwhile.
func TestSoundUnderLoad(t *testing.T) {
	t.Parallel()
	verifytest.Load(t, openAt(t, filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{}), 5)
}
