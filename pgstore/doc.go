// Package pgstore keeps events, snapshots, durable states and the offsets of projections in PostgreSQL, in the tables of
// the Akka and Pekko r2dbc plugins: it takes over what they wrote, and they can read on.
//
// # Connections
//
// Reads go through the caller's pool. Writes go over connections of the store's own, made from that pool's configuration,
// because their server-side time-outs are what the store's promises rest on: a write, a change handler or the function of
// InTx is ended by the server when it takes longer than Options.WriteTimeout. There are at most as many of them as the
// pool may have (two at least), and one more that listens while somebody watches. Open refuses what would break the promises: a
// pooler that does not keep sessions, a read-only session, a server that runs with fsync=off, unlogged tables.
//
// # Appends
//
// Commits to different entities that arrive while others are being written share one statement and so one flush of the
// server's log. Each of them still wins, loses or fails alone. A writer that is alone never waits for company.
//
// # Replays
//
// A replay reads ahead a page of some thousand events or a few megabytes at a time and gives the connection back before
// the body sees the first of them. So the body may do anything, also write to the same store, however small the pool is.
// Most replays are one page: one statement. Between two pages of a longer one events may be deleted; that is noticed and
// is annals.ErrTruncated.
//
// # Caveats
//
//   - db_timestamp is the start of the writing transaction, as the plugins have it, so events become visible a little out of
//     order. Followers have to look back twice Options.WriteTimeout at least; package query does.
//   - Deleted events leave stripped rows behind for fifteen minutes, which the next DeleteTo removes, unless
//     Options.PluginDeletes is set. They fence off writers and retries that began before the delete.
//   - The writer column holds the WriteID of a commit: events of one commit share it.
//   - On a live foreign writer to the same entity only the primary key guards the journal. Hand entities over: stop it, wait,
//     then write.
package pgstore
