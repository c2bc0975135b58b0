// Package sqlitestore is the embedded default store: one SQLite file, durable when it acknowledges.
package sqlitestore
