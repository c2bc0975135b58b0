package sqlitestore_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	lib "modernc.org/sqlite/lib"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// history is a short history of a store, with all operations on its files: commits, a log that is begun again, the end of a
// process. Each step is repeated until it is acknowledged.
type history struct {
	t    *testing.T
	disk *disk
	path string
	s    *sqlitestore.Store

	sent         map[annals.PersistenceID][]annals.SeqNr // the ends of the commits
	acknowledged []acknowledgement
}

// acknowledgement says that an entity had its events up to a number after so many operations on the disk.
type acknowledgement struct {
	ops  int
	id   annals.PersistenceID
	last annals.SeqNr
}

func newHistory(t *testing.T) *history {
	dir := t.TempDir()
	return &history{t: t, disk: newDisk(t, dir), path: filepath.Join(dir, "annals.db"), sent: map[annals.PersistenceID][]annals.SeqNr{}}
}

func (h *history) run() {
	h.open()
	for i := range 2 {
		h.append("T|1", 1+i)
		h.append("T|2", 1)
	}
	h.checkpoint("PASSIVE")
	h.append("T|1", 2)
	h.checkpoint("RESTART")
	h.append("T|3", 30) // more than one page
	h.append("T|2", 1)
	h.try("close", func() error { return h.s.Close() })
	h.open()
	h.append("T|1", 1)
}

// try repeats one step until it succeeds. The errors may only be of the kinds that a failing disk can cause.
func (h *history) try(what string, step func() error) {
	h.t.Helper()
	for range 20 {
		err := step()
		if err == nil {
			return
		}
		if !annals.SafeToRetry(err) {
			h.t.Errorf("%s: %v, want ErrUnknown or ErrUnavailable", what, err)
		}
	}
	h.t.Fatalf("%s: never acknowledged", what)
}

func (h *history) open() {
	h.t.Helper()
	h.try("open", func() (err error) {
		h.s, err = sqlitestore.Open(h.t.Context(), h.path, sqlitestore.Options{})
		return err
	})
	h.t.Cleanup(func() { _ = h.s.Close() })
}

func (h *history) append(id annals.PersistenceID, n int) {
	h.t.Helper()
	after := annals.SeqNr(0)
	if ends := h.sent[id]; len(ends) > 0 {
		after = ends[len(ends)-1]
	}
	c := commit(id, after, n)
	last := after + annals.SeqNr(n)
	h.sent[id] = append(h.sent[id], last)
	h.try("append", func() error {
		r, err := h.s.Journal().Append(h.t.Context(), c)
		if err == nil && r.SeqNr != last {
			h.t.Errorf("%s: acknowledged up to %d, want %d", id, r.SeqNr, last)
		}
		return err
	})
	h.acknowledged = append(h.acknowledged, acknowledgement{len(h.disk.done()), id, last})
}

// checkpoint copies the log into the database, as SQLite does from time to time. Its errors are ignored.
func (h *history) checkpoint(mode string) {
	db := raw(h.t, h.path)
	_, _ = db.ExecContext(h.t.Context(), `PRAGMA wal_checkpoint(`+mode+`)`)
	_ = db.Close()
}

// check opens the files that a crash after so many operations leaves. All that was acknowledged must be there, and no commit in
// part.
func (h *history) check(im image, ops int, what string) {
	h.t.Helper()
	dir := h.t.TempDir()
	newDisk(h.t, dir) // which spares the true disk
	path := filepath.Join(dir, "annals.db")
	for name, data := range im {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	s, err := sqlitestore.Open(h.t.Context(), path, sqlitestore.Options{})
	if err != nil {
		h.t.Errorf("%s: %v", what, err)
		return
	}
	defer func() { _ = s.Close() }()
	want := map[annals.PersistenceID]annals.SeqNr{}
	for _, a := range h.acknowledged {
		if a.ops <= ops {
			want[a.id] = a.last
		}
	}
	for id, ends := range h.sent {
		got := annals.SeqNr(len(numbers(h.t, s, id))) // checks order and payloads
		if got < want[id] || got > 0 && !slices.Contains(ends, got) {
			h.t.Errorf("%s: %s has %d events, want at least %d, in commits that end at %v", what, id, got, want[id], ends)
		}
	}
	mustAppend(h.t, s, commit("T|new", 0, 1))
}

// When the power fails or the process is killed, at any operation of a short history with all kinds of writes, all that was
// acknowledged is there afterwards, and no commit in part. Writes that were not synced are lost, kept, or kept in part.
func TestCrashes(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.run()
	ops := h.disk.done()
	losses := []func(i int, op diskOp) (diskOp, bool){
		func(int, diskOp) (diskOp, bool) { return diskOp{}, false },
		func(i int, op diskOp) (diskOp, bool) { return op, i%2 == 1 },
		func(i int, op diskOp) (diskOp, bool) { op.data = op.data[:len(op.data)/2]; return op, true },
		func(_ int, op diskOp) (diskOp, bool) { return op, op.kind != "delete" },
	}
	type crash struct {
		image
		ops  int
		what string
	}
	crashes := map[[sha256.Size]byte]crash{} // the latest that left an image
	for n := range len(ops) + 1 {
		images := []image{written(ops[:n])}
		for _, keep := range losses {
			images = append(images, survived(ops[:n], keep))
		}
		for i, im := range images {
			sum := sha256.New()
			for _, name := range slices.Sorted(maps.Keys(im)) {
				fmt.Fprintf(sum, "%s %d %s", name, len(im[name]), im[name])
			}
			crashes[[sha256.Size]byte(sum.Sum(nil))] = crash{im, n, fmt.Sprintf("a crash after operation %d, of kind %d", n, i)}
		}
	}
	t.Logf("%d operations, %d different crashes", len(ops), len(crashes))
	inTwos(slices.Collect(maps.Values(crashes)), func(c crash) { h.check(c.image, c.ops, c.what) })
}

// inTwos runs all tests, two at a time; with -short every fourth test.
func inTwos[T any](all []T, do func(T)) {
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			step := 2
			if testing.Short() {
				step = 8
			}
			for i := part; i < len(all); i += step {
				do(all[i])
			}
		})
	}
	wg.Wait()
}

// When any write, sync, truncate or delete fails, once or for some time, no call returns a conflict, every write is acknowledged
// in the end, and each acknowledged write is stored once, also when the power fails afterwards.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	codes := map[string]int32{"write": lib.SQLITE_IOERR_WRITE, "sync": lib.SQLITE_IOERR_FSYNC, "truncate": lib.SQLITE_IOERR_TRUNCATE,
		"delete": lib.SQLITE_IOERR_DELETE}
	whole := newHistory(t)
	whole.run()
	var runs []func()
	for length, step := range map[int]int{1: 1, 4: 5} {
		for n := 0; n < len(whole.disk.done()); n += step {
			runs = append(runs, func() {
				h, left := newHistory(t), length
				h.disk.failing(func(op diskOp) int32 {
					if len(h.disk.ops) < n || left == 0 || codes[op.kind] == 0 {
						return 0
					}
					left--
					return codes[op.kind]
				})
				h.run()
				h.disk.failing(nil)
				ops, what := h.disk.done(), fmt.Sprintf("%d failures from operation %d on, and a loss of power", length, n)
				lost := func(int, diskOp) (diskOp, bool) { return diskOp{}, false }
				h.check(survived(ops, lost), len(ops), what)
			})
		}
	}
	inTwos(runs, func(run func()) { run() })
}

// On a full disk only writes that need space fail. Reads succeed, and writes succeed again when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.open()
	h.append("T|1", 1)
	space := func(limit int64) func(diskOp) int32 {
		return func(op diskOp) int32 {
			if op.kind == "write" && op.at+int64(len(op.data)) > limit {
				return lib.SQLITE_FULL
			}
			return 0
		}
	}
	size := int64(len(written(h.disk.done())["annals.db-wal"]))
	for extra := range int64(12) {
		h.disk.failing(space(size + extra*1000))
		c := commit("T|2", 0, 1)
		c.Events[0].Data = make([]byte, 10_000)
		_, err := h.s.Journal().Append(t.Context(), c)
		if !annals.SafeToRetry(err) {
			t.Errorf("with %d bytes of free space: %v, want ErrUnavailable or ErrUnknown", extra*1000, err)
		}
		if last, err := h.s.Journal().LastSeqNr(t.Context(), "T|2"); last != 0 || err != nil {
			t.Errorf("the refused commit left number %d, %v", last, err)
		}
		if got := numbers(t, h.s, "T|1"); len(got) != 1 {
			t.Errorf("on a full disk there are %v", got)
		}
	}
	h.disk.failing(nil)
	h.append("T|1", 1)
	h.append("T|2", 3)
	ops := h.disk.done()
	h.check(written(ops), len(ops), "after the disk was full")
}

// A log that is cut off, at the end of a frame or within one, loses what is after the cut and nothing before it.
func TestCutLog(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.open()
	for i := range 3 {
		h.append("T|1", 1+i)
		h.append("T|2", 1)
	}
	ops := h.disk.done()
	whole := written(ops)
	var runs []func()
	const header, frame = 32, 24 + 4096
	for cut := header; cut <= len(whole["annals.db-wal"]); cut += frame / 2 {
		runs = append(runs, func() {
			log := whole["annals.db-wal"][:cut]
			known := 0 // the operations of which all is left
			size := 0
			for i, op := range ops {
				if op.kind == "write" && op.file == "annals.db-wal" {
					size = max(size, int(op.at)+len(op.data))
				}
				if size > len(log) {
					break
				}
				known = i + 1
			}
			h.check(image{"annals.db": whole["annals.db"], "annals.db-wal": log}, known, fmt.Sprintf("a log cut at %d", len(log)))
		})
	}
	inTwos(runs, func(run func()) { run() })
}
