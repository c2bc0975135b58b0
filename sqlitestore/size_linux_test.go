package sqlitestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// Sizes counts the rows, and an append that is alone syncs the disk as often as it says.
func TestSizes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDisk(t, dir)
	s := openAt(t, filepath.Join(dir, "annals.db"), sqlitestore.Options{})
	sizer, err := ability.Of[ability.Sizer](s)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, commit("T|0", 0, 1))
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "S|a", Payload: annals.Payload{SerializerID: 31, Data: make([]byte, 5000)}}); err != nil {
		t.Fatal(err)
	}
	syncs := func() (n int) {
		for _, op := range d.done() {
			if op.kind == "sync" && strings.HasSuffix(op.file, "-wal") {
				n++
			}
		}
		return n
	}
	before := syncs()
	for i := range 50 {
		mustAppend(t, s, commit("T|1", annals.SeqNr(10*i), 10))
	}
	sizes, err := sizer.Sizes(t.Context())
	if err != nil || len(sizes) != 4 || sizes[0].Table != "event_journal" || sizes[1] != (ability.Size{Table: "durable_state", Items: 1, Bytes: 8192, IndexBytes: sizes[1].IndexBytes}) {
		t.Fatalf("%+v, %v", sizes, err)
	}
	size := sizes[0]
	if size.Items != 501 || size.ReadUnits != 0 || syncs()-before != 50*size.Fsyncs {
		t.Errorf("%+v, %v: %d syncs", size, err, syncs()-before)
	}
	if err := s.Close(); err != nil { // which writes the log into the file
		t.Fatal(err)
	}
	file, err := os.Stat(filepath.Join(dir, "annals.db"))
	if err != nil {
		t.Fatal(err)
	}
	if all := size.Bytes + size.IndexBytes; size.Bytes < 4096*2 || size.IndexBytes < 4096*2 || all%4096 != 0 || all > file.Size() || all < file.Size()/2 {
		t.Errorf("%+v, the file has %d bytes", size, file.Size())
	}
}
