// Package akka is the layout of dynamostore for the tables of the Akka and Pekko plugins for DynamoDB: akka-persistence-dynamodb 1.x and
// pekko-persistence-dynamodb. Give a Layout with the plugin's settings to dynamostore.Open.
//
// The items are those of the plugin, attribute by attribute, and the plugin can read what this package writes. A partition has up to 100
// events of an entity. Markers have the numbers at which groups of 100 begin, and the first number that is not deleted.
//
// The behaviour differs where the plugin can lose events: puts are conditional where the plugin overwrites, a batch is one transaction, the
// markers that other writers have left out are found and written, and a read whose bounds are inside a batch yields the events of the batch
// that are within the bounds.
//
// ReplayLimit, ListAll, Repair and Purge are beyond the contracts of annals. They take a *dynamostore.Store with this layout, or that store inside
// one of its transactions, and are ErrUnsupported for others.
//
// # Caveats
//
// A plugin that writes to the same id at the same time neither checks conditions nor writes with them, so it can replace an event of
// this package. Stop the plugin, wait for its writes to end, then write.
//
// Journal.SequenceShards must be at least the greatest value that a writer of the table has ever had. Open compares the setting, and
// Journal.Name, with some items of the table. What does not fit is refused.
//
// The tables have no place for the times, tags and metadata of events. A delete removes items, so a writer that has not noticed the
// delete can use a deleted number again: FenceAfterDelete is not claimed.
//
// In tables of the plugin a lost event can look like a number that the plugin has left unused. dynamostore.Options.Strict makes it an error.
package akka
