// Package cleanup deletes events, snapshots and states of many entities, and can make a store forget entities completely.
//
//	c, err := cleanup.New(store, cleanup.Options{PerSecond: 50})
//	report, err := c.DeleteBeforeSnapshot(ctx, store.Query().IDs(ctx, "Thread", ""))
//
// A store that does not claim annals.Capabilities.IDQueries cannot list its ids: then the program has to know them, and makes a sequence of
// them with IDs.
//
// A run is limited in speed and concurrency. Options.DryRun reads and counts without deleting. A run that was interrupted can be
// continued after Report.Last.
//
// # Deleted entities and their owners
//
// A runtime may have an entity in memory that another process deletes. So DeleteEntities and ForgetEntities take the number after the last
// one, on stores that are an ability.Skipper, and one more when snapshots are deleted: the runtime's next write, or the look at the store before
// its next answer, then finds another number, and the entity is loaded again. It is empty. A runtime that loads the entity during the run may
// see the last snapshot without the events after it, until the snapshot is deleted, too. On other stores the entity must not be in memory during the
// run (entity.Runtime.Evict of each process). A snapshot that a runtime began to save before the delete can arrive after it, and is deleted by the
// next run.
//
// # What forgetting means
//
// After a delete the store still knows the last number of an entity, so that no number is used twice: late writers, repeated writes
// and projections find the numbers that they know. ForgetEntities and ForgetDeleted remove this knowledge. A forgotten entity is like
// one that was never written: its next event has number 1, and its next state has revision 1. After that
//
//   - a writer that still has an old number may append to the new entity. SQL stores refuse this until the new entity has reached
//     that number; DynamoDB does not;
//   - a repeated old write is not recognised: after number 0 it is stored as the first event of a new entity;
//   - a snapshot that arrives late becomes a snapshot of the new entity;
//   - readers of events are not told that the entity was forgotten. A projection handles all events of one that begins again.
//
// The first three happen only to requests that are later than Options.Age, which is 15 minutes by default: a runtime of package entity loads
// an entity again when the store has not answered for it for 5 minutes. With Options.AtOnce no runtime may have the entity in memory.
//
// An entity is also removed from what projections keep in the store: see projection.Control.Forget, which does that in other stores.
//
// # Which entities must not be written meanwhile
//
// DeleteBeforeSnapshot may run while entities are written. So may DeleteEntities and ForgetEntities where the store is an
// ability.Skipper. What is written to an entity during the run is not forgotten: that entity fails with annals.ErrConflict. On DynamoDB, and of an entity
// with more than 256 events, earlier events may be deleted by then, so that an owner which loads the entity finds the others only, until the next run deletes
// them, too. For
// DeleteEvents and DeleteSnapshots the entities must be stopped, because a runtime that has an entity in memory continues with what it knows.
package cleanup
