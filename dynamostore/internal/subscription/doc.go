// Package subscription is ability.Subscriber on DynamoDB: the events of a table, from its journal and then from its stream.
//
// What is acknowledged is kept as one number for each entity, the mark. A record of the stream says which events an item holds. Events up to
// the mark are dropped, and numbers that are missing between the mark and a record are read from the journal. So nothing depends on the
// order of the stream, nor on how often it has a record. The mark has the times of its event and of number 1: other times show that the entity was
// forgotten and has begun again.
//
// A subscription begins by catching up: the events of all ids in the table are read from the journal. The shards of the stream follow, from
// the oldest record that the stream has. When records were removed before they were read, the subscription catches up again (a new
// round); marks say what is new.
//
// The parts of the catch-up and the shards of the stream are leased to loops. Every write for a shard is on condition that no other loop has
// written its item since, so a loop that has lost a shard cannot acknowledge anything. The marks are written on condition that they are as the reader has
// read them: the items of an entity can be in several shards. What a loop has in memory is a view that it renews
// three times in a lease; it hands out no deliveries when its view is older than a lease.
package subscription
