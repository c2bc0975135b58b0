package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// everything reads all that the store keeps, and returns the first error.
func everything(ctx context.Context, s *sqlitestore.Store, ids ...annals.PersistenceID) error {
	for _, err := range s.Query().Events(ctx, annals.Filter{}) {
		if err != nil {
			return err
		}
	}
	for _, err := range s.Query().States(ctx, annals.Filter{}) {
		if err != nil {
			return err
		}
	}
	for _, id := range ids {
		if _, _, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{}); err != nil {
			return err
		}
	}
	return nil
}

// A change of any column of a row that has a checksum is found, by stores with and without the option.
func TestChecksums(t *testing.T) {
	t.Parallel()
	o := posts(nil)
	o.Checksums = true
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, o)
	c := commit("T|1", 0, 2)
	c.Events[0].Tags, c.Events[0].Metadata, c.Events[0].Adapter = []string{"a", "b"}, payload("metadata"), "adapter"
	mustAppend(t, s, c)
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 2, Payload: payload("x"), Tags: []string{"a"}, Metadata: payload("m")}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []annals.PersistenceID{"S|1", "Post|1"} {
		if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: payload("x"), Tags: []string{"a"},
			Event: &annals.NewEvent{Payload: payload("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.InTx(t.Context(), func(_ context.Context, _ *sql.Tx, in annals.Store) error {
		mustAppend(t, in, commit("T|2", 0, 1))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	plain := openAt(t, path, posts(nil))
	db := raw(t, path)
	for _, table := range []string{"event_journal", "snapshot", "durable_state", "posts"} {
		if n := count(t, db, `SELECT count(*) FROM `+table+` WHERE crc32c IS NULL`); n != 0 {
			t.Errorf("%d rows of %s have no checksum", n, table)
		}
	}
	for _, s := range []*sqlitestore.Store{s, plain} {
		if err := everything(t.Context(), s, "T|1", "T|2"); err != nil {
			t.Fatal(err)
		}
	}
	for table, changes := range map[string]string{
		"event_journal": `persistence_id = 'T|3'; seq_nr = seq_nr + 5; db_timestamp = db_timestamp + 1; event_ser_id = 2; event_ser_manifest = 'text.v2';
			event_payload = x'ff'; writer = '00000000-0000-0000-0000-000000000009'; adapter_manifest = 'other'; tags = NULL; tags = '["a","c"]'; tags = '["ab"]';
			meta_ser_id = 9, meta_ser_manifest = 'm', meta_payload = x''; crc32c = crc32c + 1; crc32c = -1`,
		"snapshot":      `seq_nr = 1; write_timestamp = 1; ser_id = 2; ser_manifest = 'y'; snapshot = x''; tags = '["b"]'; meta_payload = x'00'`,
		"durable_state": `revision = 2; db_timestamp = 1; state_ser_id = 2; state_ser_manifest = 'y'; state_payload = x'00'; tags = NULL; state_ser_id = 0`,
		"posts":         `revision = 2; state_payload = x'00'`,
	} {
		row := count(t, db, `SELECT min(rowid) FROM `+table)
		mustExec(t, db, `CREATE TEMP TABLE kept AS SELECT * FROM `+table+` WHERE rowid = ?`, row)
		for change := range strings.SplitSeq(changes, ";") {
			mustExec(t, db, `UPDATE `+table+` SET `+change+` WHERE rowid = ?`, row)
			for _, s := range []*sqlitestore.Store{s, plain} {
				err := everything(t.Context(), s, "T|1", "T|2")
				wantKind(t, err, annals.ErrCorrupt)
				if !strings.Contains(fmt.Sprint(err), "crc32c") {
					t.Errorf("%s with %s: %v does not name the checksum", table, change, err)
				}
			}
			mustExec(t, db, `DELETE FROM `+table+` WHERE rowid = ?`, row)
			mustExec(t, db, `INSERT INTO `+table+` SELECT * FROM kept`)
			mustExec(t, db, `UPDATE `+table+` SET rowid = ? WHERE rowid = last_insert_rowid()`, row)
			if err := everything(t.Context(), s, "T|1", "T|2"); err != nil {
				t.Fatalf("%s with %s taken back: %v", table, change, err)
			}
		}
		mustExec(t, db, `DROP TABLE kept`)
	}

	// Queries without payloads do not compare the checksum.
	for _, err := range s.Query().Events(t.Context(), annals.Filter{KeysOnly: true}) {
		if err != nil {
			t.Error(err)
		}
	}
	if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil {
		t.Fatal(err)
	}
	if got := numbers(t, s, "T|1"); len(got) != 1 {
		t.Errorf("after the delete there are %v", got)
	}
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Post|1", After: 1, Event: &annals.NewEvent{Payload: payload("2")}}); err != nil {
		t.Fatal(err)
	}
	if err := everything(t.Context(), s); err != nil {
		t.Error(err)
	}
	mustExec(t, db, `UPDATE event_journal SET deleted = 1 WHERE persistence_id = 'T|1'`) // hides what is there
	var end error
	for _, end = range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
	}
	wantKind(t, end, annals.ErrCorrupt)
}

// One file can have rows with and without checksums.
func TestChecksumsAreOptional(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	with, without := openAt(t, path, sqlitestore.Options{Checksums: true}), openAt(t, path, sqlitestore.Options{})
	for after := annals.SeqNr(0); after < 6; after += 2 {
		mustAppend(t, without, commit("T|1", after, 1))
		mustAppend(t, with, commit("T|1", after+1, 1))
	}
	for _, s := range []*sqlitestore.Store{with, without} {
		if got := numbers(t, s, "T|1"); len(got) != 6 {
			t.Errorf("there are %v", got)
		}
	}
	if n := count(t, with.DB(), `SELECT count(crc32c) FROM event_journal`); n != 3 {
		t.Errorf("%d rows have a checksum, want 3", n)
	}
}
