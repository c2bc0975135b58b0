package sqlitestore

import (
	"context"
	"database/sql"
	"net/url"
	"runtime"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/annals-go/annals"
)

// Commits returns how many groups were committed, and how many writes were in them.
func Commits(s *Store) (groups, writes int64) {
	return s.backend.writer.commits.Load(), s.backend.writer.grouped.Load()
}

// AwaitQueue returns when n writes wait for the writer.
func AwaitQueue(s *Store, n int) {
	for Queued(s) < n {
		runtime.Gosched()
	}
}

// Queued returns how many writes the queue has.
func Queued(s *Store) int {
	w := s.backend.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// LongGroups lets transactions begin in a group of s for longer than the tests last.
func LongGroups(s *Store) { s.backend.writer.begins = time.Hour }

// RollBack undoes the transaction of s that is under way, as SQLite does after an error of the disk.
func RollBack(s *Store) { s.backend.writer.rollback() }

// ForgetCheck makes s check its files before the next transaction, as it does some time after the one before. Nothing may be under way.
func ForgetCheck(s *Store) { s.backend.writer.checked = time.Time{} }

const (
	DeleteBatch = deleteBatch
	PageRows    = pageRows
	KeepDeleted = keepDeleted
)

// Path is the file of s.
func Path(s *Store) string { return s.backend.path }

// LimitReaders gives s a pool of n connections for reading. No read may be under way.
func LimitReaders(s *Store, n int) {
	s.backend.readers = newReaders(s.backend.readerDB, s.backend.files, n)
}

// MaxStatements bounds Statements of each connection.
const MaxStatements = maxStatements

// Statements returns how many prepared statements the writer keeps, and all readers together. Nothing may be under way.
func Statements(s *Store) (writer, readers int) {
	for _, r := range s.backend.readers.idle {
		readers += len(r.known)
	}
	return len(s.backend.writer.statements.known), readers
}

// HoldReader runs fn while it has one of the connections for reading.
func HoldReader(s *Store, fn func()) error {
	return s.backend.read(context.Background(), func(context.Context, *statements) error { fn(); return nil })
}

// FromURL returns the Options that a URL sets.
func FromURL(u *url.URL) (Options, error) {
	_, o, err := Options{}.fromURL(u)
	return o, err
}

// SnapshotPage is the query for a page of snapshots.
func SnapshotPage(f annals.Filter) (text string, args []any) {
	return snapshotPage(f, heldBack(f), pageRows)
}

// CheckVersion is what Open does before it changes the file.
func CheckVersion(ctx context.Context, conn *sql.Conn) error {
	q := &statements{conn: conn}
	defer func() { _ = q.close() }()
	return lookAtVersion(ctx, q)
}

// AtNextCommit calls fn at the end of the next COMMIT of s.
func AtNextCommit(s *Store, fn func()) error { return AtCommits(s, sync.OnceFunc(fn)) }

// AtCommits calls fn at the end of each COMMIT of s.
func AtCommits(s *Store, fn func()) error {
	return s.backend.conn.Raw(func(conn any) error {
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			refused := s.backend.atCommit()
			if refused == 0 {
				fn()
			}
			return refused
		})
		return nil
	})
}
