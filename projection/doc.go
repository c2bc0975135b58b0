// Package projection runs projections: handlers that follow the events of a store, or its durable states, and remember how far they have come.
//
//	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
//	runner, err := projection.ExactlyOnce("messages", source, store, handle, projection.Options{})
//	err = runner.Run(ctx)
//
// # What is promised
//
// ExactlyOnce is for a read model in the database of a store. The handler's writes and the position of the projection are committed in one
// transaction, so each event has its effect once, also when a process is killed or when two processes handle the same event. The events
// may be in another store. AtLeastOnce is for everything else: an event is handled again when the process ends before the position was
// saved. Both have a grouped variant, which hands over several events at a time.
//
// No event is left out, in whatever order the events become visible, and the events of one entity are handled in the order of their
// numbers. Between entities there is no order. Package query does this part. On PostgreSQL and DynamoDB it rests on clocks and on
// Capabilities.Lateness, within bounds: what becomes visible later is handled late, counted and logged. docs/how-nothing-is-skipped.md has the
// bounds. Events that were deleted before they were handled are logged.
//
// # Runners
//
// Any number of runners, in any number of processes, share a projection. The slices are divided into ranges, and each range has one
// runner, which is recorded in a durable state of the store that has the position. When a runner ends, others take its ranges at once. When
// a process is killed or hangs, they take its ranges after Options.Lease, and from then on it cannot commit anything.
//
// # Errors
//
// A handler that returns an error or panics has failed. What it wrote in the transaction is undone, the other events of the transaction are
// handled without it, and Options.OnError decides what happens to the event: Retry, Skip, Park or Stop. A Runner repeats the requests of
// its own that fail. It also reads an event again, without asking OnError, while the codec says that the event can be decoded later
// (annals.ErrUnavailable).
//
// # Control
//
// A Control pauses a projection, resets it, shows how far it has come and waits until it has handled an event, from any process. Rebuild makes a
// new read model beside the one in use. Envelope.Rebuilding tells a handler that an event comes again, so that it sends no mail twice.
//
// # Tests
//
// Package projectiontest tests handlers, with each event handled twice.
package projection
