//go:build !race

package sqlitestore_test

// changes of TestManyChanges.
const changes = 10_000
