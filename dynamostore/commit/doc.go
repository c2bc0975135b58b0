// Package commit is the layout of dynamostore for new tables. Give a Layout to dynamostore.Open:
//
//	store, err := dynamostore.Open(ctx, client, commit.Layout{Table: "annals"}, dynamostore.Options{CreateTables: true})
//
// All events of an Append are one item, so an append is one conditional put. The key of the item is the id of the entity and the number
// of the first event. Two writers with the same After write to the same key, and exactly one of them succeeds.
//
// A delete never frees a key. DeleteTo replaces items by tombstones that keep the key, the WriteID and the number of events. So a
// late writer still finds its number taken, and the newest item or tombstone tells the last number of the entity. A snapshot is stored
// directly after the last event that it covers, so a recovery is one query in descending order. A deleted snapshot also leaves a
// tombstone, so that a delayed repetition of the request does not store it again.
//
// Queries across entities need Layout.Index: an index by entity type, slice group and time that contains commits and states. It is
// eventually consistent.
//
// docs/layouts/commit.md shows the items as the console of DynamoDB shows them.
//
// # Caveats
//
// An append after a number in the middle of a commit is not refused: After must be 0 or a number that LastSeqNr, a recovery, a receipt
// or a complete Replay returned. Tombstones stay until the entity is forgotten, about 130 bytes each. All items of an entity share one
// partition key. Entities that need more than its 1,000 writes a second use package j5ik2o.
package commit
