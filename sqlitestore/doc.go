// Package sqlitestore is the embedded default store: one SQLite file, durable when it acknowledges.
//
// A Store keeps journals, snapshots, durable states and offsets in tables of the shape that the r2dbc plugins of Akka and
// Pekko use. Writes that wait at the same time share one transaction and one fsync, each with an outcome of its own. The
// user's own tables can be in the same file: Options.Init creates them, Store.InTx and change handlers write to them in
// the store's transactions, Store.DB reads them.
//
// # Caveats
//
// Several processes of one machine may open the file; it must not be on a network file system. Watch tells of the commits
// of another process within a tenth of a second, of its own at once. One writer at a time has the file, so a function that runs inside a transaction (InTx, a
// change handler, StateType.Bind) holds up all others: keep it short.
//
// NewEvent.Time is kept, from 1970 to one minute ahead of the clock; events without one get the time of the store's clock, which is
// later than all times in the file.
package sqlitestore
