package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// A projection of a plugin has handled events after the last save of the store, or before the first one. The position then follows from the
// plugin's rows and its time window, also where the plugin has removed old rows.
func TestGoesOnFromThePlugin(t *testing.T) {
	t.Parallel()
	const window = 130 * time.Second
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ids := map[int]annals.PersistenceID{} // by quarter of the slices
	for i := 0; len(ids) < 4; i++ {
		id := annals.NewPersistenceID("Cart", fmt.Sprint(i))
		ids[id.Slice()/256] = id
	}
	row := func(key string, quarter int, minutes int) {
		run(t, url, fmt.Sprintf(`INSERT INTO akka_projection_timestamp_offset_store VALUES ('p', '%s', %d, '%s', 7, '%s', now())`,
			key, ids[quarter].Slice(), ids[quarter], at.Add(time.Duration(minutes)*time.Minute).Format(time.RFC3339)))
	}
	wantThrough := func(r annals.SliceRange, want ...time.Time) {
		t.Helper()
		got, err := s.Offsets().Load(t.Context(), "p", r)
		if err != nil || len(got) != len(want) {
			t.Fatalf("slices %s: got %+v, error %v, want %d positions", r, got, err, len(want))
		}
		for i := range want {
			if !got[i].Through.Time.Equal(want[i]) {
				t.Errorf("slices %s: got Through %v, want %v", got[i].Slices, got[i].Through.Time, want[i])
			}
		}
	}
	all := annals.SliceRange{From: 0, To: 1024}
	row("0-511", 0, 60)
	row("0-511", 1, 10) // has had no event since
	row("512-1023", 2, 30)
	wantThrough(all, at.Add(time.Hour-window), at.Add(30*time.Minute-window))
	wantThrough(annals.SliceRange{From: 600, To: 700}, at.Add(30*time.Minute-window)) // wherever the newest row of the worker is

	save := func(minutes int) {
		t.Helper()
		now := at.Add(time.Duration(minutes) * time.Minute)
		err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Epoch: 1, Through: annals.Offset{Time: now.Add(-time.Hour)}, Offsets: []annals.Offset{{ID: ids[0], SeqNr: 8, Time: now}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	save(240) // an hour ahead of its Through, which a plugin never is
	wantThrough(all, at.Add(3*time.Hour))
	row("0-1023", 3, 300) // the plugin has handled a later event
	wantThrough(all, at.Add(5*time.Hour-window))
	save(420)
	wantThrough(all, at.Add(6*time.Hour))

	if err := s.Offsets().Reset(t.Context(), "p", all, annals.Offset{}); err != nil {
		t.Fatal(err)
	}
	wantThrough(all, time.Time{})
	row("my key", 0, 600)
	row("another", 1, 540)
	row("0-1023", 2, 660)
	wantThrough(all, at.Add(9*time.Hour-window))
}
