package sqlitestore_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/annals-go/annals"
)

// oldFile is a file that a release with a schema version wrote: version 1 without checksums, the others with them.
func oldFile(t *testing.T, version int) (path string) {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", fmt.Sprintf("version%d.db.gz", version)))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "annals.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What every schema version wrote can be read, and is upgraded to the last one when it is opened. The rows stay as they are.
func TestOlderVersions(t *testing.T) {
	t.Parallel()
	for version, sums := range map[int]int{1: 0, 2: 5, 3: 5, 4: 5} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			upgrade(t, oldFile(t, version), sums)
		})
	}
}

// upgrade opens the file of a version, whose events have so many checksums, twice, and writes to it.
func upgrade(t *testing.T, path string, sums int) {
	o := posts(nil)
	o.Checksums = true
	// As a delete of an older release leaves the rows when all are old.
	mustExec(t, raw(t, path), `DELETE FROM event_journal WHERE deleted > 0 AND persistence_id = 'T|1'`)
	for opened := range 2 {
		s := openAt(t, path, o)
		if n := count(t, s.DB(), `SELECT version FROM annals`); n != 5 {
			t.Fatalf("the version is %d", n)
		}
		if got := numbers(t, s, "T|1"); len(got) != 3+opened || got[0] != 3 {
			t.Errorf("the events are %v", got)
		}
		var tagged []annals.Event
		for e, err := range s.Journal().Replay(t.Context(), "T|2", 1, annals.MaxSeqNr) {
			if err != nil {
				t.Fatal(err)
			}
			tagged = append(tagged, e)
		}
		if len(tagged) != 2 || len(tagged[1].Tags) != 2 || string(tagged[1].Metadata.Data) != "metadata" {
			t.Errorf("the events with tags and metadata are %+v", tagged)
		}
		if snap, ok, err := s.Snapshots().Latest(t.Context(), "T|1", annals.SnapshotCriteria{}); !ok || err != nil || string(snap.Data) != "snapshot" {
			t.Errorf("the snapshot is %+v, %v", snap, err)
		}
		for id, want := range map[annals.PersistenceID]string{"State|1": "common", "Post|1": "title:body"} {
			if state, ok, err := s.States().Get(t.Context(), id); !ok || err != nil || string(state.Data) != want && opened == 0 {
				t.Errorf("the state is %+v, %v", state, err)
			}
			w := annals.StateWrite{ID: id, After: annals.SeqNr(1 + opened), Payload: payload("again"), Metadata: payload("of the state")}
			if _, err := s.States().Put(t.Context(), w); err != nil {
				t.Error(err)
			}
			if state, _, err := s.States().Get(t.Context(), id); err != nil || string(state.Metadata.Data) != "of the state" {
				t.Errorf("the state is %+v, %v", state, err)
			}
		}
		if offsets, err := s.Offsets().Handled(t.Context(), "p", "T|1"); err != nil || len(offsets) != 1 || offsets[0].SeqNr != 4 {
			t.Errorf("the offsets are %+v, %v", offsets, err)
		}
		c := commit("T|1", annals.SeqNr(5+opened), 1)
		c.Events[0].Time = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		if r := mustAppend(t, s, c); !r.Time.Equal(c.Events[0].Time) {
			t.Errorf("the imported event has the time %v", r.Time)
		}
		const summed = `SELECT (SELECT count(crc32c) FROM event_journal) + (SELECT count(crc32c) FROM durable_state) + (SELECT count(crc32c) FROM posts)`
		if n := count(t, s.DB(), summed); n != sums+3+opened {
			t.Errorf("%d rows have checksums, want %d", n, sums+3+opened)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
