package sqlitestore_test

import (
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"modernc.org/libc"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/storetest"
)

// Histories are linearizable while COMMITs fail, with and without effect, and another process takes the lock: no conflict is false,
// no write is lost, and none is stored twice.
func TestLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	var b broken
	storetest.Run(t, b.config(""))
}

// The same cases find a store that cannot tell its own writes from those of others.
func TestFaultsFindNaiveWriters(t *testing.T) {
	t.Parallel()
	var b broken
	c := b.config(forgottenWriters)
	c.Naive = true
	storetest.Run(t, c)
}

// forgottenWriters replaces the ids of writes as they are stored.
const forgottenWriters = `
CREATE TRIGGER forget_writer AFTER INSERT ON event_journal BEGIN
	UPDATE event_journal SET writer = substr(writer, 1, 24) || '000000000000' WHERE persistence_id = NEW.persistence_id AND seq_nr = NEW.seq_nr;
END;
CREATE TRIGGER forget_first_write AFTER INSERT ON durable_state BEGIN
	UPDATE durable_state SET writes = substr(writes, 1, length(writes) - 12) || '000000000000' WHERE persistence_id = NEW.persistence_id;
END;
CREATE TRIGGER forget_write AFTER UPDATE OF revision ON durable_state BEGIN
	UPDATE durable_state SET writes = substr(writes, 1, length(writes) - 12) || '000000000000' WHERE persistence_id = NEW.persistence_id;
END`

// broken opens stores, each on a disk of its own.
type broken struct{ disks sync.Map }

// config is of stores in whose files a script has run.
func (b *broken) config(script string) storetest.Config {
	return storetest.Config{Short: testing.Short(), Faults: b.fail, Topics: []string{"FAULT"}, Open: func(tb testing.TB) annals.Store {
		dir := tb.TempDir()
		d := &commitDisk{disk: newDisk(tb, dir)}
		commitDisks.Store(dir, d)
		tb.Cleanup(func() { commitDisks.Delete(dir) })
		s := openAt(tb, filepath.Join(dir, "annals.db"), sqlitestore.Options{})
		if script != "" {
			mustExec(tb, raw(tb, sqlitestore.Path(s)), script)
		}
		b.disks.Store(annals.Store(s), d)
		return s
	}}
}

// fail is storetest.Config.Faults. Each fault happens again after so many operations of a kind.
func (b *broken) fail(tb testing.TB, s annals.Store) func() map[string]int {
	found, _ := b.disks.Load(s)
	d := found.(*commitDisk)
	var mu sync.Mutex
	happened := map[string]int{"log not written": 0, "log not synced": 0, "error of a COMMIT that took effect": 0, "locked by another process": 0}
	seen := map[string]int{}
	failing := func(name, operation string, every int, code int32) int32 {
		mu.Lock()
		defer mu.Unlock()
		if seen[operation]++; seen[operation]%every != every/2 {
			return 0
		}
		happened[name]++
		return code
	}
	d.failing(func(op diskOp) int32 {
		switch {
		case !strings.HasSuffix(op.file, "-wal"):
		case op.kind == "write":
			return failing("log not written", op.kind, 67, lib.SQLITE_FULL)
		case op.kind == "sync":
			return failing("log not synced", op.kind, 11, lib.SQLITE_IOERR_FSYNC)
		}
		return 0
	})
	lock := make(chan struct{}, 1)
	d.failCommits(func() int32 {
		if failing("locked by another process", "lock", 9, 1) != 0 {
			select {
			case lock <- struct{}{}:
			default: // the other process has the lock
			}
		}
		return failing("error of a COMMIT that took effect", "commit", 7, lib.SQLITE_IOERR_NOMEM)
	})
	unlocked := make(chan struct{})
	go func() {
		defer close(unlocked)
		db := raw(tb, filepath.Join(d.dir, "annals.db"))
		for range lock {
			if tx, err := db.BeginTx(tb.Context(), nil); err == nil {
				<-time.After(time.Millisecond)
				_ = tx.Rollback()
			}
		}
	}()
	return func() map[string]int {
		d.failing(nil)
		d.failCommits(nil)
		close(lock)
		<-unlocked
		return happened
	}
}

// commitDisk is a disk that decides how the COMMITs on it end.
type commitDisk struct {
	*disk
	commits func() (code int32) // guarded by disk.mu; nil: all succeed
}

// failCommits sets what COMMITs return from now on, after they took effect: 0 is success.
func (d *commitDisk) failCommits(code func() int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits = code
}

func (d *commitDisk) committed() int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.commits == nil {
		return 0
	}
	return d.commits()
}

// commitDisks are the disks by folder, connections the disks by the handle of a connection to a file on one of them.
var commitDisks, connections sync.Map

func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		u, err := url.Parse(dsn)
		if err != nil {
			return err
		}
		d, ok := commitDisks.Load(filepath.Dir(u.Path))
		if !ok {
			return nil
		}
		c := reflect.ValueOf(conn).Elem()
		handle := uintptr(c.FieldByName("db").Uint())
		connections.Store(handle, d)
		lib.Xsqlite3_wal_hook((*libc.TLS)(c.FieldByName("tls").UnsafePointer()), handle, address(afterCommit), 0)
		return nil
	})
}

// afterCommit is a callback of sqlite3_wal_hook: the COMMIT took effect, and fails when afterCommit returns a code. SQLite passes on
// SQLITE_NOMEM only, and makes SQLITE_ERROR of other codes. It replaces SQLite's own callback, which makes the checkpoints.
func afterCommit(tls *libc.TLS, _, handle, database uintptr, frames int32) int32 {
	if frames >= 4096 {
		lib.Xsqlite3_wal_checkpoint(tls, handle, database)
	}
	d, _ := connections.Load(handle)
	return d.(*commitDisk).committed()
}
