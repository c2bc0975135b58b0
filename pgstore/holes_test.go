package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
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
		last, err := s.Recover(t.Context(), id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { recovered++; return nil })
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
