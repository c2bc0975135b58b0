// Package cleanup deletes what is no longer wanted, of many entities: events, snapshots, whole entities, and in the end
// what keeps their numbers. Runs are bounded and paced, can be tried dry, and go on where an earlier one ended.
//
//	c, err := cleanup.New(store, cleanup.Options{PerSecond: 50})
//	report, err := c.DeleteBeforeSnapshot(ctx, store.Query().IDs(ctx, "Thread", ""))
//
// # What forgetting ends
//
// Deleting keeps a promise: numbers never come back. A writer who was asleep, a retry and a projection all meet the
// numbers that they know. ForgetEntities and ForgetDeleted end it. A forgotten entity is one that was never written: its
// next event is number 1, its next state revision 1. From then on
//
//   - a writer that still holds a number of the old life may have its write taken for one of the new life: SQL stores
//     refuse it until the new one has come to that number, DynamoDB does not,
//   - a retry of an old write is not recognised: after 0 it is stored, as the beginning of a new life,
//   - a snapshot that is saved late becomes the snapshot of whoever writes next under the id,
//   - a projection that remembers the old numbers takes the new ones for events that it has handled, and followers never
//     hear of the end.
//
// The first three need somebody who is more than Options.Age late, a quarter of an hour unless it says otherwise. The
// fourth needs an id that is used again: don't, or reset the projections.
//
// # Who must not write meanwhile
//
// DeleteBeforeSnapshot may run beside whatever else happens. For everything else stop the entities: a runtime that has one
// in memory goes on with what it knows. What is written between the steps on an entity is never forgotten: the entity
// fails with annals.ErrConflict.
package cleanup
