package sqlitestore

import "runtime"

// Commits returns how many groups were committed, and how many writes were in them.
func Commits(s *Store) (groups, writes int64) {
	return s.writer.commits.Load(), s.writer.grouped.Load()
}

// AwaitQueue returns when n writes wait for the writer.
func AwaitQueue(s *Store, n int) {
	for queued(s.writer) < n {
		runtime.Gosched()
	}
}

func queued(w *writer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

const (
	DeleteBatch = deleteBatch
	PageRows    = pageRows
	KeepDeleted = keepDeleted
)

// Path is the file of s.
func Path(s *Store) string { return s.path }
