package sqlitestore_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// An older release stored no time of the event with a snapshot of no event. Such a snapshot has the place of the time when it was taken.
func TestSnapshotsWithoutEventTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, sqlitestore.Options{})
	taken := time.UnixMicro(7).UTC()
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1, Time: taken, Payload: payload("x")}); err != nil {
		t.Fatal(err)
	}
	mustExec(t, raw(t, path), `UPDATE snapshot SET db_timestamp = NULL`)
	n := 0
	for snap, err := range s.Query().Snapshots(t.Context(), annals.Filter{}) {
		if n++; err != nil || !snap.EventTime.Equal(taken) {
			t.Errorf("got a snapshot of an event at %v, error %v, want %v", snap.EventTime, err, taken)
		}
	}
	if n != 1 {
		t.Errorf("got %d snapshots, want 1", n)
	}
}

// A page of snapshots is read in the order of an index, and not sorted.
func TestSnapshotsAreNotSorted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	openAt(t, path, sqlitestore.Options{})
	for _, f := range []annals.Filter{{}, {Type: "T", Slices: annals.SliceRange{From: 1, To: 9}, After: annals.Offset{Time: time.Unix(1, 0), SeqNr: 1, ID: "T|1"}}} {
		text, args := sqlitestore.SnapshotPage(f)
		rows, err := raw(t, path).QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+text, args...)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var a, b, c int
			var detail string
			if err := rows.Scan(&a, &b, &c, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(plan, "; "); !strings.Contains(all, "snapshot_time_idx") || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%+v: %s", f, all)
		}
	}
}
