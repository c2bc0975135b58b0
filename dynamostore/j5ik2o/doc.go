// Package j5ik2o is the layout of dynamostore for the tables of the j5ik2o Akka plugin (akka-persistence-dynamodb). Give a Layout with
// the plugin's settings to dynamostore.Open. docs/layouts/j5ik2o.md maps the settings.
//
// The rows are those of the plugin, attribute by attribute, and the plugin can read what this package writes. Every write has a writer
// id of its own, as the plugin's replay filter expects. The behaviour differs where the plugin can lose or mix events: puts are
// conditional where the plugin overwrites, a batch is one transaction, reads are strongly consistent reads of keys where the plugin
// reads an index that lags, all pages are read, and an id that would share a key with another id is refused with both ids in the error.
//
// docs/formats/j5ik2o.md describes the bytes.
//
// # Caveats
//
// A plugin that writes to the same id at the same time neither checks conditions nor writes with them, so it can replace an event of
// this package. Stop the plugin, wait for its writes to end, then write.
//
// The plugin's default keys can collide; those of SequenceNumberBased cannot. Shard count and resolvers are not stored in the table:
// Open compares them with some rows, and the index is asked before an id is taken for new. What does not fit is refused.
//
// The plugin's index has one partition key for each entity. So shards raise the limit of an entity only with Layout.NoIndex.
//
// Times are those of the writers' clocks, in milliseconds. A hard delete by the plugin loses the highest number; a delete by this
// package keeps the newest row.
package j5ik2o
