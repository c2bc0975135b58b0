package pgstore_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/verify"
)

// damaged is a store on a database in which each kind of damage is.
func damaged(tb testing.TB) (annals.Store, []string, map[ability.Code]string) {
	url, ctx := postgres.Schema(tb), tb.Context()
	s := openAt(tb, url, pgstore.Options{CreateTables: true})
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
	run(tb, url, `CREATE TABLE durable_state_own (LIKE durable_state INCLUDING ALL);
		ALTER TABLE durable_state DROP CONSTRAINT durable_state_pkey, ADD PRIMARY KEY (persistence_id, revision)`) // as in older tables
	s = openAt(tb, url, pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"Own": {Table: "durable_state_own"}}})
	plugin := annals.NewWriteID()
	newest := verifytest.Fill(tb, s,
		[]annals.PersistenceID{"sound", "T|sound", "T|missing", "T|first", "T|newest", "T|hole", "T|unreadable", "T|snapshot", "T|orphan", "T|slice", "T|type", "T|snapshot type", "T|moved", "T|zero", "T|hidden"},
		[]annals.PersistenceID{"S|sound", "S|unreadable", "S|old", "S|slice", "S|twice", "S|writes", "Own|sound", "Own|elsewhere", "Other|in own"},
		func(c *annals.Commit) {
			if c.ID == "T|hole" {
				c.WriteID = plugin // has one id for many commits
			}
		})
	progress := annals.Progress{Projection: "p", Through: newest, Offsets: []annals.Offset{{Time: newest.Time, ID: "T|sound", SeqNr: 5}}}
	if err := s.Offsets().Save(ctx, progress); err != nil {
		tb.Fatal(err)
	}
	run(tb, url, `
		DELETE FROM event_journal WHERE persistence_id = 'T|missing' AND seq_nr IN (2, 4);
		DELETE FROM event_journal WHERE persistence_id = 'T|first' AND seq_nr = 1;
		DELETE FROM event_journal WHERE persistence_id = 'T|newest' AND seq_nr = 5;
		DELETE FROM event_journal WHERE persistence_id = 'T|hole' AND seq_nr = 4;
		UPDATE event_journal SET db_timestamp = 'infinity' WHERE persistence_id = 'T|unreadable' AND seq_nr = 4;
		UPDATE snapshot SET write_timestamp = 9223372036854775807 WHERE persistence_id = 'T|snapshot';
		DELETE FROM event_journal WHERE persistence_id = 'T|orphan';
		UPDATE event_journal SET slice = (slice + 1) % 1024 WHERE persistence_id = 'T|slice' AND seq_nr IN (2, 3);
		UPDATE event_journal SET entity_type = 'U' WHERE persistence_id = 'T|type' AND seq_nr = 5;
		UPDATE snapshot SET entity_type = 'U' WHERE persistence_id = 'T|snapshot type';
		UPDATE snapshot SET db_timestamp = db_timestamp + interval '1 microsecond' WHERE persistence_id = 'T|moved';
		UPDATE durable_state SET db_timestamp = 'infinity' WHERE persistence_id = 'S|unreadable';
		UPDATE event_journal SET seq_nr = 0 WHERE persistence_id = 'T|zero' AND seq_nr = 5;
		UPDATE event_journal SET deleted = true WHERE persistence_id = 'T|hidden' AND seq_nr = 3;
		UPDATE durable_state SET write_ids = 'x' WHERE persistence_id = 'S|writes';
		UPDATE durable_state SET revision = 1 WHERE persistence_id = 'S|old';
		UPDATE durable_state SET slice = (slice + 1) % 1024 WHERE persistence_id = 'S|slice';
		INSERT INTO durable_state (SELECT (r).* FROM (SELECT jsonb_populate_record(d, '{"revision": 1}') r FROM durable_state d WHERE persistence_id = 'S|twice') x);
		INSERT INTO durable_state SELECT * FROM durable_state_own WHERE persistence_id = 'Own|elsewhere';
		INSERT INTO durable_state_own SELECT * FROM durable_state WHERE persistence_id = 'Other|in own';
		UPDATE akka_projection_timestamp_offset_store SET slice = (slice + 1) % 1024 WHERE persistence_id = 'T|sound'`)
	return s, []string{"missing T|missing 2 2", "missing T|missing 4 4", "missing T|first 1 1", "hole T|hole 4 4",
			"unreadable T|unreadable 4 4", "snapshot T|snapshot 3 3", "orphan T|orphan 3 3", "key T|slice 2 3", "key T|type 5 5", "key T|snapshot type 3 3", "index T|moved 3 3", "key T|zero 0 0", "key T|hidden 1 2", "state S|writes 2 2",
			"state S|unreadable 2 2", "state S|old 1 2", "key S|slice 2 2", "doubled S|twice 1 2", "key Own|elsewhere 2 2", "key Other|in own 2 2", "key T|sound 0 0"},
		map[ability.Code]string{
			ability.Incomplete: "each event has a row, and nothing else tells what was written together",
			ability.Checksum:   "the server has checksums of its pages, and rows have none",
			ability.Head:       "the last number is that of the last row",
			ability.File:       "the files are the server's",
		}
}

// In the tables that the plugin left there is what it is known to leave, and nothing else.
func TestGoldenDamage(t *testing.T) {
	t.Parallel()
	files, err := golden()
	if err != nil {
		t.Fatal(err)
	}
	for folder := range files {
		if files[folder]["dump.sql"] != nil && !slices.Contains(goldenFolders, folder) {
			t.Errorf("the tables of %s are not read", folder)
		}
	}
	for _, folder := range goldenFolders {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, goldenDatabase(t, folder), goldenOptions(folder))
			verifytest.Want(t, s, verify.Options{}, pluginLeft[folder]...)
		})
	}
}

// pluginLeft is what the plugin left in its tables: snapshots of entities whose events were removed with their numbers, or that never had as many.
var pluginLeft = map[string][]string{
	"snapshots": {"orphan Order|s-4 1 1", "orphan Order|s-5 7 7", "orphan Order|s-7 9 9", "orphan Ünï|ß #/ 1 2 2"},
}
