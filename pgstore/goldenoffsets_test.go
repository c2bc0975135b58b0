package pgstore_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// offsetRow is a row of the plugin's table of offsets, but for when it was written.
type offsetRow struct {
	Name, Key string
	Slice     int
	ID        string
	SeqNr     int64
	At        time.Time
}

// offsetRows are all of them, in the order of their times.
func offsetRows(t *testing.T, url string) []offsetRow {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT projection_name, projection_key, slice, persistence_id, seq_nr, timestamp_offset
		FROM akka_projection_timestamp_offset_store ORDER BY timestamp_offset, projection_name, projection_key, persistence_id, seq_nr`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[offsetRow])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What the plugin's projections handled is saved again in the same order. The plugin keeps several rows of an entity for a while; the store
// keeps the newest, which is equal to the plugin's newest. The golden tables for offsets that are single values, and for paused
// projections, are not used by annals and not written.
func TestSavesTheOffsetsThatThePluginSaved(t *testing.T) {
	t.Parallel()
	url := goldenDatabase(t, "projection-offsets")
	s := openAt(t, url, goldenOptions("projection-offsets"))
	all := offsetRows(t, url)
	run(t, url, "TRUNCATE akka_projection_timestamp_offset_store")
	type entity struct{ name, id string }
	newest := map[entity]offsetRow{}
	for _, row := range all {
		newest[entity{row.Name, row.ID}] = row
		p := annals.Progress{Projection: row.Name, Offsets: []annals.Offset{{Time: row.At, SeqNr: annals.SeqNr(row.SeqNr), ID: annals.PersistenceID(row.ID)}}}
		for _, slices := range []annals.SliceRange{{From: 0, To: 1024}, {From: 0, To: 512}, {From: 512, To: 1024}, {From: 0, To: 256}, {From: 256, To: 512}, {From: 512, To: 768}} {
			if slices.String() == row.Key {
				p.Slices = slices
			}
		}
		if err := s.Offsets().Save(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	got := map[entity]offsetRow{}
	for _, row := range offsetRows(t, url) {
		if _, twice := got[entity{row.Name, row.ID}]; twice {
			t.Errorf("two rows of %q for %q", row.ID, row.Name)
		}
		got[entity{row.Name, row.ID}] = row
	}
	if len(newest) < 10 || len(got) != len(newest) {
		t.Errorf("%d rows, want %d", len(got), len(newest))
	}
	for _, key := range slices.SortedFunc(maps.Keys(newest), func(a, b entity) int { return newest[a].At.Compare(newest[b].At) }) {
		if g, w := got[key], newest[key]; !g.At.Equal(w.At) || g.Name != w.Name || g.Key != w.Key || g.Slice != w.Slice || g.ID != w.ID || g.SeqNr != w.SeqNr {
			t.Errorf("row\n%+v, want\n%+v", g, w)
		}
	}
}
