//go:build race

package sqlitestore_test

// changes of TestManyChanges: the race detector slows SQLite down thirty times.
const changes = 1_000
