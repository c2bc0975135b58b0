// Package akka0 is the layout of dynamostore for the tables of akka-persistence-dynamodb 0.1 to 0.3 by sclasen. Give a Layout with the
// plugin's settings to dynamostore.Open. It stores events only. docs/layouts/akka0.md shows the items and lists the costs.
//
// The items are those of the plugin, attribute by attribute, and the plugin can read what this package writes. The behaviour differs
// where the plugin can lose, mix or hide events: a commit is one transaction on condition that its numbers are free, a replay reads up to
// the last number and does not stop at a number without an event, nothing behind the last number asked for is returned, unprocessed parts
// of requests are repeated, and updates of events that do not exist make no items.
//
// Confirm, Messages, Delete and Lowest are what the plugin has beyond the contracts of annals. They take a *dynamostore.Store with this layout, or
// that store inside one of its transactions, and are ErrUnsupported for others.
//
// docs/formats/akka-v0.md describes the bytes.
//
// # Caveats
//
// The plugin neither checks conditions nor writes with them, so when it writes to the same id at the same time, it can replace an event of
// this package. Stop the plugin, wait for its writes to end, then write.
//
// Single events can be deleted for good, so a replay passes over any number without an event, unless dynamostore.Options.Strict is set. Check
// finds these numbers.
//
// Items have no place for a WriteID. A commit that is sent again with the same WriteID and After is recognised for ten minutes, by the
// service, and only if it is the same commit. Later it is ErrConflict, although it was stored. Receipt.Repeated is always false.
//
// The number of sequence shards is not stored in the table. With fewer shards than were used to write, the last number can be too low.
package akka0
