package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	for slice, want := range map[int]time.Time{ids[0].Slice() + 1: at.Add(time.Hour - window), ids[2].Slice() + 1: at.Add(30*time.Minute - window)} {
		n := 0
		for annals.NewPersistenceID("Cart", fmt.Sprint(n)).Slice() != slice {
			n++
		}
		handled, err := s.Offsets().Handled(t.Context(), "p", annals.NewPersistenceID("Cart", fmt.Sprint(n))) // the plugin has removed its row
		if err != nil || !handled[0].Time.Equal(want) {
			t.Errorf("slice %d: handled %v, error %v, want %v", slice, handled, err, want)
		}
	}

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
	if handled, err := s.Offsets().Handled(t.Context(), "p", ids[1]); err != nil || !handled[0].Time.Equal(at.Add(5*time.Hour-window)) {
		t.Errorf("handled %v, error %v", handled, err)
	}
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

	if err := s.Offsets().Reset(t.Context(), "p", all, annals.Offset{}); err != nil {
		t.Fatal(err)
	}
	row("1-4", 0, 720) // the first worker of four, and no slices
	wantThrough(all, at.Add(12*time.Hour-window))
}

// There is a row of an entity that a Through does not cover, and with PluginOffsets of each entity. The positions are the same.
func TestRowsOfOffsets(t *testing.T) {
	t.Parallel()
	ids := []annals.PersistenceID{"T|1", "T|2"}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	offset := func(id annals.PersistenceID, n int) annals.Offset {
		return annals.Offset{ID: id, SeqNr: annals.SeqNr(n), Time: at.Add(time.Duration(n) * time.Second)}
	}
	for plugins, want := range map[bool][]string{false: {"T|2 3"}, true: {"T|1 2", "T|2 3"}} {
		url := postgres.Schema(t)
		s := openAt(t, url, pgstore.Options{CreateTables: true, PluginOffsets: plugins})
		for _, p := range []annals.Progress{
			{Through: offset(ids[0], 2), Offsets: []annals.Offset{offset(ids[0], 1), offset(ids[1], 1), offset(ids[0], 2)}},
			{Through: offset(ids[0], 2), Offsets: []annals.Offset{offset(ids[1], 3)}},
		} {
			p.Projection, p.Once = "p", true
			if err := s.Offsets().Save(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, row := range offsetRows(t, url) {
			got = append(got, fmt.Sprint(row.ID, " ", row.SeqNr))
		}
		if !slices.Equal(got, want) {
			t.Errorf("PluginOffsets %t: rows %q, want %q", plugins, got, want)
		}
		loaded, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
		if err != nil || len(loaded) != 1 || loaded[0].Through != offset(ids[0], 2) || len(loaded[0].Offsets) != 1 || loaded[0].Offsets[0] != offset(ids[1], 3) {
			t.Errorf("PluginOffsets %t: positions %+v, %v", plugins, loaded, err)
		}
		for _, handled := range []annals.Offset{offset(ids[1], 1), offset(ids[0], 2), offset(ids[1], 3)} {
			wantKind(t, s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Once: true, Offsets: []annals.Offset{handled}}), annals.ErrConflict)
		}
	}
}

// When the entity with the newest row of a slice is forgotten, its time stays without its id: the plugin begins there, and so does this store
// where the plugin has handled later events.
func TestForgottenEntityLeavesThePluginItsPlace(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	ids := []annals.PersistenceID{"p500", "p621", "p742"} // of one slice
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, id := range ids {
		run(t, url, fmt.Sprintf(`INSERT INTO akka_projection_timestamp_offset_store VALUES ('p', '0-1023', %d, '%s', 7, '%s', now())`,
			id.Slice(), id, at.Add(time.Duration(i)*time.Hour).Format(time.RFC3339)))
	}
	read := pool(t, url)
	want := func(texts ...string) {
		t.Helper()
		var got string
		if err := read.QueryRow(t.Context(), `SELECT string_agg(persistence_id || ' ' || projection_key || ' ' || extract(hour FROM timestamp_offset AT TIME ZONE 'UTC'), ', ' ORDER BY timestamp_offset)
			FROM akka_projection_timestamp_offset_store`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(texts, ", "); got != want {
			t.Errorf("rows: got %s, want %s", got, want)
		}
		loaded, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
		if err != nil || len(loaded) != 1 || !loaded[0].Through.Time.Equal(at.Add(2*time.Hour-130*time.Second)) {
			t.Errorf("positions: %+v, %v", loaded, err)
		}
	}
	forget := func(id annals.PersistenceID) {
		t.Helper()
		if err := s.Offsets().Forget(t.Context(), "p", id); err != nil {
			t.Fatal(err)
		}
	}
	want("p500 0-1023 3", "p621 0-1023 4", "p742 0-1023 5")
	forget(ids[2])
	want("p500 0-1023 3", "p621 0-1023 4", "annals.forgotten| 0-1023 5")
	forget(ids[1])
	forget(ids[0])
	want("annals.forgotten| 0-1023 5")
}

// What a plugin has handled stays handled when the store saves offsets without a Through, which are later than the plugin's rows, and
// when it takes slices back.
func TestSavesBesideThePlugin(t *testing.T) {
	t.Parallel()
	const window = 130 * time.Second
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(minutes int) time.Time { return at.Add(time.Duration(minutes) * time.Minute) }
	ids := map[int]annals.PersistenceID{} // by half of the slices
	for i := 0; len(ids) < 2; i++ {
		id := annals.NewPersistenceID("Cart", fmt.Sprint(i))
		ids[id.Slice()/512] = id
	}
	for name, c := range map[string]struct {
		before *annals.Progress // saved before the plugin goes on
		change func(o annals.OffsetStore) error
		want   []time.Time // of both halves
	}{
		"the first save": {nil, func(o annals.OffsetStore) error {
			return o.Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: ids[0], SeqNr: 8, Time: after(90)}}})
		}, []time.Time{after(60).Add(-window), after(30).Add(-window)}},
		"the first save with a new lease": {&annals.Progress{Projection: "p", Epoch: 1, Through: annals.Offset{Time: after(10)}}, func(o annals.OffsetStore) error {
			return o.Save(t.Context(), annals.Progress{Projection: "p", Epoch: 2, Offsets: []annals.Offset{{ID: ids[1], SeqNr: 8, Time: after(90)}}})
		}, []time.Time{after(60).Add(-window), after(30).Add(-window)}},
		"a save without a lease": {&annals.Progress{Projection: "p", Through: annals.Offset{Time: after(10)}}, func(o annals.OffsetStore) error {
			return o.Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: ids[1], SeqNr: 8, Time: after(90)}}})
		}, []time.Time{after(60).Add(-window), after(30).Add(-window)}},
		"a save of a half": {&annals.Progress{Projection: "p", Through: annals.Offset{Time: after(10)}}, func(o annals.OffsetStore) error {
			return o.Save(t.Context(), annals.Progress{Projection: "p", Slices: annals.SliceRange{To: 512}, Through: annals.Offset{Time: after(70)}, Offsets: []annals.Offset{{ID: ids[0], SeqNr: 8, Time: after(90)}}})
		}, []time.Time{after(70), after(30).Add(-window)}},
		"a save of a time before the entity's last": {nil, func(o annals.OffsetStore) error {
			return o.Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: ids[0], SeqNr: 8, Time: after(59)}}})
		}, []time.Time{after(60).Add(-window), after(30).Add(-window)}},
		"a reset": {nil, func(o annals.OffsetStore) error {
			return o.Reset(t.Context(), "p", annals.SliceRange{}, annals.Offset{Time: after(40)})
		}, []time.Time{after(40), after(30).Add(-window)}},
		"a reset of a half": {&annals.Progress{Projection: "p", Through: annals.Offset{Time: after(10)}}, func(o annals.OffsetStore) error {
			return o.Reset(t.Context(), "p", annals.SliceRange{To: 512}, annals.Offset{Time: after(40)})
		}, []time.Time{after(40), after(30).Add(-window)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgres.Schema(t)
			s := openAt(t, url, pgstore.Options{CreateTables: true})
			if c.before != nil {
				if err := s.Offsets().Save(t.Context(), *c.before); err != nil {
					t.Fatal(err)
				}
			}
			for half, key := range []string{"0-511", "512-1023"} {
				run(t, url, fmt.Sprintf(`INSERT INTO akka_projection_timestamp_offset_store VALUES ('p', '%s', %d, '%s', 7, '%s', now())`,
					key, ids[half].Slice(), ids[half], after(60-30*half).Format(time.RFC3339)))
			}
			if err := c.change(s.Offsets()); err != nil {
				t.Fatal(err)
			}
			for half, want := range c.want {
				got, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{From: 512 * half, To: 512 * (half + 1)})
				if err != nil || len(got) != 1 || !got[0].Through.Time.Equal(want) {
					t.Errorf("half %d: got %+v, error %v, want a Through of %v", half, got, err, want)
				}
			}
		})
	}
}

// A worker of the plugin has had more slices than are reset: its rows in the other slices do not stand for those.
func TestResetOfAPartOfThePluginsSlices(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: annals.SliceRange{From: 512, To: 1024}, Epoch: 5}); err != nil {
		t.Fatal(err)
	}
	run(t, url, fmt.Sprintf(`INSERT INTO akka_projection_timestamp_offset_store SELECT 'p', '0-1023', n, 'any', 7, '%s', now() FROM generate_series(0, 1023) n`, at.Format(time.RFC3339)))
	for range 2 {
		if err := s.Offsets().Reset(t.Context(), "p", annals.SliceRange{From: 0, To: 512}, annals.Offset{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
	if err != nil || len(got) != 2 || got[0].Epoch != 2 || !got[0].Through.Time.IsZero() || got[1].Epoch != 5 || !got[1].Through.Time.Equal(at.Add(-130*time.Second)) {
		t.Errorf("got %+v, error %v", got, err)
	}
}

// A reset, and the first save of a worker, lock the rows of epochs in the order in which Forget does, which has to divide none.
func TestResetsBesideForgets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o annals.OffsetStore) error{
		"reset": func(o annals.OffsetStore) error {
			return o.Reset(t.Context(), "p", annals.SliceRange{}, annals.Offset{})
		},
		"new epoch": func(o annals.OffsetStore) error {
			return o.Save(t.Context(), annals.Progress{Projection: "p", Epoch: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, counted := postgres.Database(t), &retries{}
			s := openAt(t, with(t, url, "deadlock_timeout=100ms"), pgstore.Options{CreateTables: true, Observer: counted})
			if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Epoch: 1}); err != nil {
				t.Fatal(err)
			}
			tx, err := pool(t, url).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			if _, err := tx.Exec(t.Context(), "SELECT FROM annals_projection_epoch FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			results := make(chan error, 2)
			for i, call := range []func() error{func() error { return change(s.Offsets()) }, func() error { return s.Offsets().Forget(t.Context(), "p", "T|1") }} {
				go func() { results <- call() }()
				for count(t, url, "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()") <= i {
				}
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-results, <-results); err != nil || counted.n != 0 {
				t.Errorf("error %v after %d retries, want none", err, counted.n)
			}
		})
	}
}

// Without the table of epochs the store's own rows do not differ from those of a plugin, and do not stand for other entities in a save.
func TestSavesWithoutEpochs(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, "DROP TABLE annals_projection_epoch")
	s := openAt(t, url, pgstore.Options{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, o := range []annals.Offset{{ID: "T|1", SeqNr: 1, Time: at.Add(time.Hour)}, {ID: "T|2", SeqNr: 1, Time: at}} {
		if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Once: true, Offsets: []annals.Offset{o}}); err != nil {
			t.Error(err)
		}
	}
}
