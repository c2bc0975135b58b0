package sqlitestore_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
)

// A file of schema version 1 is read as it is, and becomes one of version 2 when it is opened: its rows have no checksums.
func TestVersion1(t *testing.T) {
	t.Parallel()
	packed, err := os.Open(filepath.Join("testdata", "version1.db.gz"))
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
	path := filepath.Join(t.TempDir(), "annals.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	o := posts(nil)
	o.Checksums = true
	for opened := range 2 {
		s := openAt(t, path, o)
		if n := count(t, s.DB(), `SELECT version FROM annals`); n != 2 {
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
			if _, err := put(s, id, annals.SeqNr(1+opened), "again"); err != nil {
				t.Error(err)
			}
		}
		if offset, ok, err := s.Offsets().Handled(t.Context(), "p", "T|1"); !ok || err != nil || offset.SeqNr != 4 {
			t.Errorf("the offset is %+v, %v", offset, err)
		}
		mustAppend(t, s, commit("T|1", annals.SeqNr(5+opened), 1))
		const sums = `SELECT (SELECT count(crc32c) FROM event_journal) + (SELECT count(crc32c) FROM durable_state) + (SELECT count(crc32c) FROM posts)`
		if n := count(t, s.DB(), sums); n != 3+opened {
			t.Errorf("%d rows have checksums, want %d", n, 3+opened)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
