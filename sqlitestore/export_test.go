package sqlitestore

import "runtime"

// Commits returns how many groups were committed, and how many writes were in them.
func Commits(s *Store) (groups, writes int64) {
	return s.writer.commits.Load(), s.writer.grouped.Load()
}

// AwaitQueue returns when n writes wait for the writer.
func AwaitQueue(s *Store, n int) {
	for s.writer.waiting() < n {
		runtime.Gosched()
	}
}

const (
	DeleteBatch = deleteBatch
	PageRows    = pageRows
	KeepDeleted = keepDeleted
)

// Path is the file of s.
func Path(s *Store) string { return s.path }
