// Package sharded is the layout of dynamostore for the tables of the j5ik2o Akka plugin (akka-persistence-dynamodb): their
// bytes, with the behaviour mended.
//
// Puts are conditional where the plugin's overwrite, a batch is one transaction where the plugin's is not atomic, reads ask
// the keys with strong consistency where the plugin reads a lagging index, all pages are read, and ids that would share a
// key with another id's row are refused with both ids in the error. What the plugin needs to go on reading is never changed:
// rows are those of the plugin, attribute by attribute, and every write has a writer id of its own, as its replay filter
// wants.
//
// docs/layouts/sharded.md maps the plugin's settings, and docs/formats/j5ik2o.md describes the bytes.
//
// # Caveats
//
// A plugin that is live on the same id neither checks nor respects conditions: its put can replace an event of ours. Stop
// it, wait for its writes to end, then write. The plugin's default keys are not free of collisions; SequenceNumberBased
// has none. Shard count and resolvers are stored nowhere: Open compares them with some rows, the index is asked before an id
// is taken for new, and what does not fit is refused. The plugin's index has one partition key for each entity: only with
// Layout.NoIndex do shards raise the limit of one. Times are the writers' clocks', in milliseconds. The plugin's hard deletes
// lose the highest number; ours keep the newest row.
package sharded
