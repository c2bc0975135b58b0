// Package commit is the default layout of dynamostore: one item is one commit.
//
// All events of an Append go into one item, so an atomic batch is one conditional put. The key is the entity's id and the
// number of the commit's first event. Every reader sees whole commits, so two writers with the same After meet on the same
// key and exactly one of them wins.
//
// Deleting never frees a key. DeleteTo strips commits to tombstones that keep their key, their WriteID and their count, so a
// late writer still meets its number, and the newest commit or tombstone is the entity's last number. A snapshot lies right
// behind the last event that it covers: a recovery is one query backwards. Deleted it leaves a tombstone, too, so a request
// that lands late and for a second time does not bring it back.
//
// Queries across entities need Layout.Index: an index over entity type, slice group and time, in which commits and states are.
// It is eventually consistent.
//
// docs/layouts/commit.md shows the items as they look in the console.
//
// # Caveats
//
// An append after a number in the middle of a commit is not refused: After must be 0 or a number that LastSeqNr, a recovery,
// a receipt or a complete Replay gave. Tombstones stay until the entity is forgotten, about 130 bytes each. All commits of an
// entity share one partition key; entities that need more than its 1,000 writes a second use package sharded.
package commit
