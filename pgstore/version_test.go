package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// written are tables that a release with a version of the schema made and wrote: events in three commits, of which two were deleted to and
// one is divided, a snapshot, two writes of a state, and offsets of a worker with epoch 7.
func written(t *testing.T, version int) (url string) {
	t.Helper()
	script, err := os.ReadFile(fmt.Sprintf("testdata/version%d.sql", version))
	if err != nil {
		t.Fatal(err)
	}
	url = postgres.Schema(t)
	run(t, url, string(script))
	return url
}

// What every version wrote can be read and written, after CreateTables or Migrate has upgraded it. Version 2 is also used as it is.
func TestOlderVersions(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 3; version++ {
		for _, way := range []string{"CreateTables", "Migrate", "as it is"} {
			t.Run(fmt.Sprint("version ", version, ", ", way), func(t *testing.T) {
				t.Parallel()
				at := written(t, version)
				if way == "as it is" && version == 1 {
					_, err := pgstore.Open(t.Context(), pool(t, at), pgstore.Options{})
					wantKind(t, err, annals.ErrInvalid)
					if !strings.Contains(err.Error(), "Migrate") {
						t.Errorf("%v does not name Migrate", err)
					}
					return
				}
				if way == "Migrate" {
					if _, err := newSetup(t, at, pgstore.Options{}).Migrate(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				readOld(t, openAt(t, at, pgstore.Options{CreateTables: way == "CreateTables"}), version == 1)
				if way == "as it is" {
					return
				}
				if pending, err := newSetup(t, at, pgstore.Options{}).Pending(t.Context()); err != nil || way == "Migrate" && len(pending) > 0 {
					t.Errorf("pending %q, %v", pending, err)
				}
				// Releases that do not read the version take INT and BIGINT only.
				const shape = `SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = 'annals_projection_epoch'
					AND column_name LIKE 'slice\_%' AND data_type = 'smallint'`
				if n := count(t, at, shape); n != 2 {
					t.Errorf("%d columns are SMALLINT, want 2", n)
				}
			})
		}
	}
}

// readOld reads everything that written describes, and writes to it. noThrough says that the worker saved no Through.
func readOld(t *testing.T, s *pgstore.Store, noThrough bool) {
	events := all(t, s, "T|1")
	if len(events) != 3 || events[0].SeqNr != 3 || string(events[2].Data) != "five" || !slices.Equal(events[0].Tags, []string{"red", `a "b", {c}`}) ||
		string(events[0].Metadata.Data) != "metadata of three" {
		t.Errorf("the events are %+v", events)
	}
	c := annals.Commit{ID: "T|1", After: 1, WriteID: annals.WriteID{1, 1}}
	for _, data := range []string{"two", "three", "four"} {
		c.Events = append(c.Events, annals.NewEvent{Payload: text(data)})
	}
	if r, err := s.Journal().Append(t.Context(), c); err != nil || !r.Repeated || r.SeqNr != 4 {
		t.Errorf("a commit sent again: %+v, %v", r, err)
	}
	if snap, ok, err := s.Snapshots().Latest(t.Context(), "T|1", annals.SnapshotCriteria{}); !ok || err != nil || string(snap.Data) != "snapshot" || snap.SeqNr != 3 {
		t.Errorf("the snapshot is %+v, %v", snap, err)
	}
	if state, ok, err := s.States().Get(t.Context(), "State|1"); !ok || err != nil || string(state.Data) != "second" || state.Revision != 2 {
		t.Errorf("the state is %+v, %v", state, err)
	}
	w := annals.StateWrite{ID: "State|1", After: 1, Payload: text("second"), WriteID: annals.WriteID{2, 1}}
	if r, err := s.States().Put(t.Context(), w); err != nil || !r.Repeated {
		t.Errorf("a state sent again: %+v, %v", r, err)
	}
	handled, err := s.Offsets().Handled(t.Context(), "p", "T|1", "T|2")
	if err != nil || len(handled) != 2 || handled[0].SeqNr != 3 || handled[1].SeqNr != 2 {
		t.Errorf("handled %+v, %v", handled, err)
	}
	positions, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
	if err != nil || len(positions) != 1 || positions[0].Epoch != 7 || noThrough && len(positions[0].Offsets) != 2 {
		t.Errorf("positions %+v, %v", positions, err)
	}
	whole := annals.SliceRange{From: 0, To: annals.SliceCount}
	p := annals.Progress{Projection: "p", Slices: whole, Epoch: 6}
	wantKind(t, s.Offsets().Save(t.Context(), p), annals.ErrFenced)
	p.Epoch, p.Through, p.Offsets = 8, events[1].Offset(), []annals.Offset{events[1].Offset(), events[2].Offset()}
	if err := s.Offsets().Save(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if positions, err := s.Offsets().Load(t.Context(), "p", whole); err != nil || len(positions) != 1 || positions[0].Epoch != 8 || positions[0].Through != p.Through {
		t.Errorf("positions after a save %+v, %v", positions, err)
	}
	appendOne(t, s, "T|1", 5)
	appendOne(t, s, "T|3", 0)
}

// Tables of a newer release are refused before anything is changed, and a store that is open reports them. The plugins' tables, which
// have no version, are not.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	at := written(t, 3)
	s := openAt(t, at, pgstore.Options{})
	run(t, at, "COMMENT ON TABLE annals_projection_epoch IS 'annals schema version 4'; DROP INDEX event_journal_slice_idx")
	o := pgstore.Options{CreateTables: true}
	for name, call := range map[string]func() error{
		"Open":        func() error { _, err := pgstore.Open(t.Context(), pool(t, at), o); return err },
		"Migrate":     func() error { _, err := newSetup(t, at, o).Migrate(t.Context()); return err },
		"Pending":     func() error { _, err := newSetup(t, at, o).Pending(t.Context()); return err },
		"CheckHealth": func() error { return health(t.Context(), s) },
	} {
		err := call()
		wantKind(t, err, annals.ErrUnsupported)
		if !strings.Contains(fmt.Sprint(err), "schema version 4, this release knows 3") {
			t.Errorf("%s: %v does not name the versions", name, err)
		}
	}
	if n := count(t, at, "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname = 'event_journal_slice_idx'"); n != 0 {
		t.Error("a newer release's tables were changed")
	}
	run(t, at, "COMMENT ON TABLE annals_projection_epoch IS 'a comment of the user'")
	if err := health(t.Context(), s); err != nil {
		t.Error(err)
	}
	openAt(t, at, pgstore.Options{})
}

func health(ctx context.Context, s annals.Store) error {
	return able[ability.HealthChecker](s).CheckHealth(ctx)
}

// able is an ability of s, which s has.
func able[A any](s annals.Store) A {
	a, err := ability.Of[A](s)
	if err != nil {
		panic(err)
	}
	return a
}
