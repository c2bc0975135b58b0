// Package pgstore keeps events, snapshots, durable states and the offsets of projections in PostgreSQL.
//
//	pool, err := pgxpool.New(ctx, url)
//	store, err := pgstore.Open(ctx, pool, pgstore.Options{CreateTables: true})
//
// The tables are those of the Akka and Pekko r2dbc plugins: the store reads what the plugins wrote, and they can read what it writes.
//
// # Connections
//
// Reads use the caller's pool. Writes use connections of the store's own, made from the configuration of that pool, because they need
// settings of the server: the server ends a write, a change handler or the function of InTx that takes longer than
// Options.WriteTimeout. The store has at most as many of these connections as the pool may have; Watch uses one more while the server has
// enough. A pool that may have one connection is used for everything, and a second connection beside transactions of the program: that is for
// many processes on one server. Open refuses what would break the promises: a read-only session, a server that runs with fsync=off, unlogged tables.
//
// Behind a pooler, such as PgBouncer, a connection may have another session of the server in each transaction. Open finds out whether
// there is one. Then each write is a transaction with its own settings, no statements are prepared, and watches are woken every second.
//
// # Appends
//
// Commits to different entities that arrive while others are being written share one statement and one flush of the server's log. Each
// of them succeeds or fails by itself. A commit that arrives alone is written at once.
//
// # Replays
//
// A replay reads the first 200 events with one statement, and further ones by pages of some thousand events or a few megabytes. While the
// loop body handles events of a long page, the server sends the next ones. Meanwhile a page keeps its connection for 20 ms at most. So the
// body may do anything, also write to the same store, even if the pool has one connection. Events may be deleted between two pages; then the
// replay ends with annals.ErrTruncated.
//
// # Caveats
//
//   - db_timestamp is the start of the writing transaction, as with the plugins, so events become visible slightly out of order: see
//     Options.Lateness.
//   - A delete leaves emptied rows, which refuse writers and repeated writes that began before it. A DeleteTo removes those older than
//     15 minutes. Options.PluginDeletes deletes rows at once, as the plugins do.
//   - The writer column holds the WriteID of a commit: events of one commit share it.
//   - When a plugin writes to the same entity at the same time, only the primary key protects the journal. Stop the plugin for that
//     entity, wait for its writes to end, then write.
package pgstore
