// Package headtable is the layout of dynamostore for the tables of event-store-adapter-rs 5.x: a journal, a table of snapshots and a table of
// heads, all keyed by the aggregate id. Give a Layout to dynamostore.Open.
//
// The items are those of the library, attribute by attribute, and the library can read and write the tables at the same time: each write of
// either side is a transaction on the condition that the head has the number before the first event.
//
// The head of an entity has its last number, and the events of its last commit. So the stream of the head table has all commits of an entity
// in their order, and a replay can tell whether the last events are missing.
//
// # Caveats
//
// An aggregate id is the text type-value. An entity type with "-" is ErrInvalid, because order-item and 1 would have the aggregate id of order
// and item-1. The aggregate id of an id without "|" has the type "|".
//
// An attribute that the library does not know, and leaves as it is, is stored only where it is needed: deleted_to in a head after a DeleteTo or
// SkipTo, serializer where a payload is not JSON, and write_id with Layout.WriteIDs. The library deletes no events. It returns the events that
// are left after a DeleteTo, without an error.
package headtable
