package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/lost"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/jackc/pgx/v5"
)

// A number may be missing where the plugin left it unused: between two writes of one writer. Elsewhere a missing number is an error.
func TestHoles(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	const incarnation = "c8656a55-d977-4e35-b334-203cec974b8e"
	for name, c := range map[string]struct {
		change string // of the events 1 … 6, in commits of their own, of which 4 is removed
		whole  bool
	}{
		"lost":                     {"", false},
		"rejected by its adapter":  {"UPDATE event_journal SET writer = '" + incarnation + "' WHERE seq_nr IN (3, 5) AND persistence_id = $id", true},
		"migrated, without writer": {"UPDATE event_journal SET writer = '' WHERE persistence_id = $id", true},
		"another incarnation":      {"UPDATE event_journal SET writer = '" + incarnation + "' WHERE seq_nr <= 3 AND persistence_id = $id", false},
		"lost in a batch": {"UPDATE event_journal SET writer = '" + incarnation + "', db_timestamp = '2026-01-02T03:04:05Z' WHERE persistence_id = $id",
			false},
		"deleted beyond the end": {`INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer)
			VALUES (0, 'Hole', $id, 4, now(), 0, '', '', TRUE, '')`, true},
		"event of a state": {`INSERT INTO durable_state (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload)
			VALUES (0, 'Hole', $id, 6, now(), 20, '', '')`, true},
	} {
		id := annals.NewPersistenceID("Hole", name)
		for after := range annals.SeqNr(6) {
			appendOne(t, s, id, after)
		}
		const remove = "DELETE FROM event_journal WHERE seq_nr = 4 AND persistence_id = $id"
		run(t, at, fmt.Sprintf("DO $do$ DECLARE pid TEXT := '%s'; BEGIN %s; %s; END $do$", id, forID(remove), forID(c.change)))
		events, replayed := collected(s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr))
		recovered := 0
		last, err := ability.Recover(t.Context(), s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { recovered++; return nil })
		if !c.whole {
			wantKind(t, replayed, annals.ErrCorrupt)
			wantKind(t, err, annals.ErrCorrupt)
			continue
		}
		if replayed != nil || err != nil || len(events) != 5 || recovered != 5 || last != 6 {
			t.Errorf("%s: replayed %d (%v), recovered %d up to %d (%v), want the five that are there", name, len(events), replayed, recovered, last, err)
		}
	}
}

// forID has $id be the variable pid.
func forID(sql string) string {
	if sql == "" {
		return "NULL"
	}
	return strings.ReplaceAll(sql, "$id", "pid")
}

// Whatever row of an entity is lost, its events are read as before, or the read is ErrCorrupt. The exceptions are in docs/stores/postgres.md.
func TestLostRows(t *testing.T) {
	t.Parallel()
	for _, pluginDeletes := range []bool{false, true} {
		at := postgres.Schema(t)
		s := openAt(t, at, pgstore.Options{CreateTables: true, PluginDeletes: pluginDeletes})
		for _, size := range []int{1, 4} { // of a commit
			for _, saved := range []annals.SeqNr{0, 6} {
				for _, deleted := range []annals.SeqNr{0, 4, 9, 12} {
					for _, old := range []annals.SeqNr{0, 8} { // so many rows are old: a delete removes them
						id := annals.NewPersistenceID("Lost", fmt.Sprintf("%d-%d-%d-%d", size, saved, deleted, old))
						for n := annals.SeqNr(0); n < 12; n += annals.SeqNr(size) {
							c := annals.Commit{ID: id, After: n, Events: slices.Repeat([]annals.NewEvent{{Payload: text("e"), Tags: []string{"tag"}}}, size)}
							if _, err := s.Journal().Append(t.Context(), c); err != nil {
								t.Fatal(err)
							}
						}
						unnoticed := map[string]string{"event_journal 12": "the newest row"}
						if saved > 0 {
							if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: saved, Payload: text("s")}); err != nil {
								t.Fatal(err)
							}
							if deleted > 0 {
								unnoticed["snapshot 6"] = "a snapshot whose events are deleted"
							}
						}
						run(t, at, fmt.Sprintf("UPDATE event_journal SET db_timestamp = db_timestamp - interval '1 day' WHERE persistence_id = '%s' AND seq_nr <= %d", id, old))
						if err := s.Journal().DeleteTo(t.Context(), id, deleted); err != nil {
							t.Fatal(err)
						}
						loseRows(t, s, at, id, unnoticed)
					}
				}
			}
		}
		id := annals.NewPersistenceID("Lost", "state")
		for n := range annals.SeqNr(6) {
			if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, After: n, Payload: text("state"), Event: &annals.NewEvent{Payload: text("e")}}); err != nil {
				t.Fatal(err)
			}
		}
		strict := openAt(t, at, pgstore.Options{PluginDeletes: pluginDeletes, Strict: true})
		loseRows(t, strict, at, id, map[string]string{"event_journal 6": "the newest row", "durable_state 6": "a state"})
	}
}

// loseRows loses one row of an entity after another.
func loseRows(t *testing.T, s *pgstore.Store, at string, id annals.PersistenceID, unnoticed map[string]string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	numbers := map[string]string{"event_journal": "seq_nr", "snapshot": "seq_nr", "durable_state": "revision"}
	var rows []string
	for table, number := range numbers {
		found, err := conn.Query(t.Context(), fmt.Sprintf("SELECT '%s ' || %s FROM %[1]s WHERE persistence_id = $1", table, number), string(id))
		if err != nil {
			t.Fatal(err)
		}
		of, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, of...)
	}
	var table string
	lost.Rows(t, s, id, rows, func(row string) {
		var n string
		table, n, _ = strings.Cut(row, " ")
		exec(fmt.Sprintf("CREATE TABLE kept AS SELECT * FROM %[1]s WHERE persistence_id = '%[2]s' AND %[3]s = %[4]s; DELETE FROM %[1]s WHERE persistence_id = '%[2]s' AND %[3]s = %[4]s", table, id, numbers[table], n))
	}, func() { exec("INSERT INTO " + table + " SELECT * FROM kept; DROP TABLE kept") }, unnoticed)
}

// Rows at the beginning that no marker covers are lost, or were removed by deleteEventsBefore of the plugins, which the option Gaps accepts.
// Numbers that are taken for unused are reported.
func TestGapsAndStrict(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	for after := range annals.SeqNr(6) {
		appendOne(t, s, "T|1", after)
		appendOne(t, s, "T|2", after)
	}
	run(t, at, "DELETE FROM event_journal WHERE seq_nr < 3 AND persistence_id = 'T|1'")
	run(t, at, "DELETE FROM event_journal WHERE seq_nr = 4 AND persistence_id = 'T|2'")
	run(t, at, "UPDATE event_journal SET writer = 'c8656a55-d977-4e35-b334-203cec974b8e' WHERE persistence_id = 'T|2'")
	counts := &unused{}
	for _, c := range []struct {
		o            pgstore.Options
		first, holes bool // the two entities can be read
	}{{pgstore.Options{}, false, true}, {pgstore.Options{Gaps: true}, true, true}, {pgstore.Options{Strict: true}, false, false}, {pgstore.Options{Gaps: true, Strict: true}, false, false}} {
		c.o.Observer = counts
		s := openAt(t, at, c.o)
		for id, whole := range map[annals.PersistenceID]bool{"T|1": c.first, "T|2": c.holes} {
			counts.n = 0
			events, err := collected(s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr))
			if whole && (err != nil || counts.n == 0) || !whole && !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("%+v: %s has %d events, %d numbers were reported, %v", c.o, id, len(events), counts.n, err)
			}
		}
		holes, err := s.Unwrap().(ability.Checker).Check(t.Context(), "T|2", nil)
		if err != nil || len(holes) != 1 || holes[0].Compare(&ability.Damage{Code: ability.Hole, ID: "T|2", From: 4, To: 4}) != 0 {
			t.Errorf("%+v: Check found %v, %v", c.o, holes, err)
		}
	}
}

// unused counts the numbers that were taken for unused.
type unused struct{ n int }

func (*unused) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }
func (u *unused) End(_ context.Context, _ annals.Call, r annals.Result)  { u.n += r.Unused }

// A number is missing where one page ends and the next begins.
func TestHoleBetweenPages(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	for after := range annals.SeqNr(230) {
		appendOne(t, s, "T|1", after)
	}
	run(t, at, "DELETE FROM event_journal WHERE seq_nr = 201")
	events, err := collected(s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr))
	if wantKind(t, err, annals.ErrCorrupt); len(events) != 200 {
		t.Errorf("%d events before the hole, want 200", len(events))
	}
}

// A lost row of what a projection has handled makes it handle events again. It does not skip any.
func TestLostProgress(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	check := lost.Progress(t, s.Offsets())
	for table, key := range map[string]string{"akka_projection_timestamp_offset_store": "persistence_id", "annals_projection_epoch": "slice_from"} {
		run(t, at, fmt.Sprintf("CREATE TABLE kept_%s AS SELECT * FROM %[1]s", table))
		for i := range count(t, at, "SELECT count(*) FROM kept_"+table) {
			run(t, at, fmt.Sprintf("DELETE FROM %s WHERE %s = (SELECT %[2]s FROM kept_%[1]s ORDER BY %[2]s OFFSET %[3]d LIMIT 1)", table, key, i))
			check(fmt.Sprintf("%d of %s", i, table), s.Offsets())
			run(t, at, fmt.Sprintf("INSERT INTO %s SELECT * FROM kept_%[1]s ON CONFLICT DO NOTHING", table))
		}
	}
}
