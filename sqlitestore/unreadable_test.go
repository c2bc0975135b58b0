package sqlitestore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// lenient is a connection of another program that can write any value into any column.
func lenient(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db := raw(tb, path)
	mustExec(tb, db, `PRAGMA writable_schema = ON`)
	mustExec(tb, db, `UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql, 'INTEGER', 'ANY'), 'TEXT', 'ANY'), 'BLOB', 'ANY'), 'NOT NULL', '')
		WHERE type = 'table'`)
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	return raw(tb, path)
}

// Rows that cannot be read are ErrCorrupt, whatever is wrong with them and whichever call reads them. The error names the entity
// and the column, and does not contain the value.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	const secret = "secret"
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, sqlitestore.Options{})
	mustAppend(t, s, commit("T|first", 0, 1))
	db := lenient(t, path)
	ctx := t.Context()
	type id = annals.PersistenceID
	readers := map[string]func(id id) error{
		"replay": func(id id) (err error) {
			for _, err = range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			}
			return err
		},
		"recover": func(id id) error {
			_, err := ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			return err
		},
		"last": func(id id) error { _, err := s.Journal().LastSeqNr(ctx, id); return err },
		"events": func(id id) (err error) {
			for _, err = range s.Query().Events(ctx, annals.Filter{Type: id.Type()}) {
			}
			return err
		},
		"tagged": func(id id) (err error) {
			for _, err = range s.Query().Events(ctx, annals.Filter{Type: id.Type(), Tag: "none"}) {
			}
			return err
		},
		"delete":   func(id id) error { return s.Journal().DeleteTo(ctx, id, 1) },
		"append":   func(id id) error { _, err := s.Journal().Append(ctx, commit(id, 0, 1)); return err },
		"snapshot": func(id id) error { _, _, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{}); return err },
		"snapshots": func(id id) (err error) {
			for _, err = range s.Query().Snapshots(ctx, annals.Filter{Type: id.Type()}) {
			}
			return err
		},
		"get": func(id id) error { _, _, err := s.States().Get(ctx, id); return err },
		"put": func(id id) error { _, err := put(s, id, 1, "again"); return err },
		"states": func(id id) (err error) {
			for _, err = range s.Query().States(ctx, annals.Filter{Type: id.Type()}) {
			}
			return err
		},
		"forget": func(id id) error {
			_, err := s.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: id})
			return err
		},
		"handled": func(id id) error { _, err := s.Offsets().Handled(ctx, "p", id); return err },
		"load": func(id id) error {
			_, err := s.Offsets().Load(ctx, "p", annals.SliceRange{From: id.Slice(), To: id.Slice() + 1})
			return err
		},
	}
	text, blob := any(secret), any([]byte(secret))
	for i, c := range []struct {
		table, column string
		value         any
		met           string // by which readers
	}{
		{"event_journal", "seq_nr", text, "last"},
		{"event_journal", "seq_nr", -7, "delete"},
		{"event_journal", "db_timestamp", text, "replay recover events"},
		{"event_journal", "db_timestamp", -1, "replay recover"},
		{"event_journal", "event_ser_id", nil, "replay recover events"},
		{"event_journal", "event_ser_id", text, "replay recover events"},
		{"event_journal", "event_ser_id", 1 << 40, "replay recover events"},
		{"event_journal", "event_ser_id", 0, "replay recover events"},
		{"event_journal", "event_ser_manifest", blob, "replay recover events"},
		{"event_journal", "event_ser_manifest", secret + "\xff", "replay recover events"},
		{"event_journal", "event_payload", text, "replay recover events"},
		{"event_journal", "event_payload", nil, "replay recover events"},
		{"event_journal", "deleted", -3, "replay recover"},
		{"event_journal", "writer", text, "replay recover events"},
		{"event_journal", "adapter_manifest", 0.5, "replay recover events"},
		{"event_journal", "tags", "{" + secret, "replay recover events tagged"},
		{"event_journal", "tags", `["a", 1]`, "replay recover events"},
		{"event_journal", "meta_ser_id", 7, "replay recover events"},
		{"event_journal", "meta_payload", blob, "replay recover events"},
		{"snapshot", "seq_nr", 0, "snapshot recover snapshots"},
		{"snapshot", "write_timestamp", text, "snapshot recover snapshots"},
		{"snapshot", "ser_id", 1 << 31, "snapshot recover snapshots"},
		{"snapshot", "snapshot", text, "snapshot recover snapshots"},
		{"snapshot", "tags", text, "snapshot recover snapshots"},
		{"snapshot", "meta_ser_id", 0, "snapshot recover snapshots"},
		{"durable_state", "revision", text, "get put forget"},
		{"durable_state", "revision", -1, "get put forget"},
		{"durable_state", "state_ser_id", text, "get states forget"},
		{"durable_state", "state_payload", text, "get states"},
		{"durable_state", "tags", text, "get states"},
		{"durable_state", "writes", text, "put"},
		{"durable_state", "writes", blob, "put"},
		{"durable_state", "db_timestamp", -1, "get forget"},
		{"offsets", "seq_nr", text, "handled load"},
		{"offsets", "timestamp_offset", blob, "handled load"},
	} {
		name := fmt.Sprintf("%d of %s.%s", i, c.table, c.column)
		id := id(fmt.Sprintf("T%d|%s", i, c.column))
		switch c.table {
		case "event_journal":
			mustAppend(t, s, commit(id, 0, 1))
		case "snapshot":
			if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 1, Payload: payload("x")}); err != nil {
				t.Fatal(err)
			}
		case "durable_state":
			if _, err := put(s, id, 0, "x"); err != nil {
				t.Fatal(err)
			}
		case "offsets":
			if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: id, SeqNr: 1}}}); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, db, `UPDATE `+c.table+` SET `+c.column+` = ? WHERE persistence_id = ?`, c.value, string(id))
		for reader := range strings.FieldsSeq(c.met) {
			err := readers[reader](id)
			wantKind(t, err, annals.ErrCorrupt)
			switch message := fmt.Sprint(err); {
			case strings.Contains(message, secret):
				t.Errorf("%s: %s: the error holds what was read: %v", name, reader, err)
			case reader != "tagged" && reader != "load" && !strings.Contains(message, string(id)):
				t.Errorf("%s: %s: the error does not name the entity: %v", name, reader, err)
			case reader != "tagged" && !strings.Contains(message, "column "):
				t.Errorf("%s: %s: the error does not name a column: %v", name, reader, err)
			}
		}
		mustExec(t, db, `DELETE FROM `+c.table+` WHERE persistence_id = ?`, string(id))
	}

	// When the latest time in the file cannot be exceeded, every write fails until an operator has repaired the row.
	mustExec(t, db, `UPDATE event_journal SET db_timestamp = 9223372036854775807`)
	wantKind(t, readers["append"]("T|2"), annals.ErrCorrupt)
	mustExec(t, db, `UPDATE event_journal SET db_timestamp = 1`)
	if err := readers["append"]("T|2"); err != nil {
		t.Error(err)
	}
}
