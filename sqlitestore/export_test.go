package sqlitestore

// Commits returns how many group transactions were committed, and how many writes were in them.
func Commits(s *Store) (commits, writes int64) {
	return s.writer.commits.Load(), s.writer.grouped.Load()
}
