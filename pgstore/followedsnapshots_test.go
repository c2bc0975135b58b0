package pgstore_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/verify"
)

// The plugin leaves db_timestamp and tags NULL unless it starts followers from snapshots. Such a snapshot has the time of its event, or
// the time when it was taken if there is no such event.
func TestSnapshotsWithoutEventTime(t *testing.T) {
	t.Parallel()
	for _, o := range []pgstore.Options{{}, {JSONB: true}} {
		s := open(t, o)
		first, second := appendOne(t, s, "T|first", 0), appendOne(t, s, "T|second", 0)
		taken := first.Time.Add(-time.Hour).Truncate(time.Millisecond)
		for _, id := range []annals.PersistenceID{"T|first", "T|second", "T|none"} {
			if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 1, Time: taken, Payload: annals.Payload{SerializerID: 4, Data: []byte(`{}`)}}); err != nil {
				t.Fatal(err)
			}
		}
		run(t, urls.of(s), "UPDATE snapshot SET db_timestamp = NULL, tags = NULL")
		want := []annals.Offset{{ID: "T|none", SeqNr: 1, Time: taken}, {ID: "T|first", SeqNr: 1, Time: first.Time}, {ID: "T|second", SeqNr: 1, Time: second.Time}}
		for _, keysOnly := range []bool{false, true} {
			var got []annals.Offset
			for snap, err := range s.Query().Snapshots(t.Context(), annals.Filter{Type: "T", KeysOnly: keysOnly}) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, snap.Offset()); !snap.Time.Equal(taken) || snap.Tags != nil || len(snap.Data) == 0 != keysOnly {
					t.Errorf("JSONB %v, KeysOnly %v: %+v", o.JSONB, keysOnly, snap)
				}
			}
			for i, w := range want {
				if i >= len(got) || got[i].Compare(w) != 0 {
					t.Fatalf("JSONB %v, KeysOnly %v: got %v, want %v", o.JSONB, keysOnly, got, want)
				}
			}
		}
	}
}

// Pekko's tables have neither the times of events nor tags.
func TestPekkoSnapshotsAreNotQueried(t *testing.T) {
	t.Parallel()
	url := postgres.Tables(t, "Pekko", func(url string) { run(t, url, pekkoTables) })
	s := openAt(t, url, pgstore.Options{Tables: pgstore.PekkoTables()})
	for _, err := range s.Query().Snapshots(t.Context(), annals.Filter{}) {
		if !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("got error %v, want ErrUnsupported", err)
		}
	}
	if s.Capabilities().SnapshotQueries {
		t.Error("SnapshotQueries is claimed")
	}
}

func TestUnreadableSnapshotsAreNamed(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"ser_id = 0", "write_timestamp = 9223372036854775807", "db_timestamp = 'infinity'", "tags = '{{a},{b}}'", "meta_payload = 'x', meta_ser_id = 0"} {
		s := open(t, pgstore.Options{})
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1, Payload: text("x")}); err != nil {
			t.Fatal(err)
		}
		run(t, urls.of(s), "UPDATE snapshot SET "+column)
		var got error
		for _, err := range s.Query().Snapshots(t.Context(), annals.Filter{}) {
			got = err
		}
		if e := (*annals.Error)(nil); !errors.As(got, &e) || e.Kind != annals.ErrCorrupt || e.ID != "T|1" {
			t.Errorf("%s: got error %v, want ErrCorrupt of the entity", column, got)
		}
	}
}

// A plugin that does not follow snapshots replaces one and leaves the time and the tags of the event that was in the one before.
func TestSnapshotsReplacedByThePlugin(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Time: time.Now().Add(-time.Hour), Payload: text("a"), Tags: []string{"old"}}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1, Payload: text("a"), Tags: []string{"old"}}); err != nil {
		t.Fatal(err)
	}
	second := appendOne(t, s, "T|1", 1)
	r, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: 2, Events: []annals.NewEvent{{Payload: text("c"), Tags: []string{"new"}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := annals.Offset{Time: r.Time, ID: "T|1", SeqNr: 3}
	for _, columns := range []string{"", ", db_timestamp = NULL, tags = NULL"} { // it has replaced one of its own
		run(t, urls.of(s), "UPDATE snapshot SET seq_nr = 3, write_timestamp = floor(extract(epoch FROM now()) * 1000), ser_id = 20, ser_manifest = '', snapshot = 'abc'"+columns)
		for tag, n := range map[string]int{"": 1, "new": 1, "old": 0} {
			f := annals.Filter{Tag: tag, After: annals.Offset{Time: second.Time, ID: "T|1", SeqNr: 2}}
			got, err := collected(s.Query().Snapshots(t.Context(), f))
			if err != nil || len(got) != n || n > 0 && (got[0].Offset().Compare(want) != 0 || !slices.Equal(got[0].Tags, []string{"new"})) {
				t.Errorf("tag %q%s: got %+v, error %v; want %d at %v", tag, columns, got, err, n, want)
			}
		}
	}
	verifytest.Want(t, s, verify.Options{})
}
