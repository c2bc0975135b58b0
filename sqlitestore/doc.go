// Package sqlitestore is a store in one SQLite file. It needs no server, and it is the store to begin with.
//
//	store, err := sqlitestore.Open(ctx, "chat.db", sqlitestore.Options{})
//
// A Store keeps journals, snapshots, durable states and offsets in tables whose columns are those of the r2dbc plugins of Akka and
// Pekko. A write is on the disk when it is acknowledged. Writes that wait at the same time share one transaction and one fsync, but
// each succeeds or fails by itself.
//
// A program can have tables of its own in the same file: Options.Init creates them, Store.InTx and change handlers write to them in
// the transactions of the store, and Store.DB reads them.
//
// # Caveats
//
// Several processes on one machine may open the file. It must not be on a network file system. Watch signals the commits of the same
// Store at once, and those of other processes within a tenth of a second.
//
// One transaction at a time can write to the file. A function that runs inside a transaction (InTx, a change handler, StateType.Bind)
// delays all other writes, so it should be short.
//
// NewEvent.Time is kept if it is between 1970 and one minute ahead of the clock. Events without a time get that of the store's clock,
// which is later than all times in the file.
package sqlitestore
