// Package entity runs entities that stay in memory: Runtime.Ask sends a command to an entity and returns its answer.
//
//	counters, err := entity.New(store, counter, entity.Options{})
//	total, err := counters.Ask(ctx, "c-1", 5)
//	err = counters.Shutdown(ctx)
//
// The first command to an entity reads it from the store. From then on its commands run one at a time, and each is answered when the
// store has acknowledged what it decided. Package aggregate offers the same behaviors without keeping entities in memory.
//
// Commands that arrive while a write is in progress are decided against the state that this write will produce. Together they become the
// next write. So the throughput of a busy entity is the number of commands in a batch times the number of writes per second.
//
// # What an answer means
//
//   - A reply: everything that the command decided, and everything that it was decided on, is stored.
//   - An error of the domain: the command was rejected on a state that is stored, and it wrote nothing.
//   - annals.ErrUnknown: the write may have happened or not. The runtime does not run the command again. A caller that repeats it runs
//     it twice, unless the behavior finds the id of the command in its state. A command that may be sent again can go through
//     aggregate.Repository.AskOnce instead, on the same entity.
//   - Any other *annals.Error: the command did nothing.
//
// # Several runtimes
//
// Several runtimes, in one process or in many, may run the same entity. When two of them write, one succeeds; the other reads the
// entity again and decides again. When they write without a pause, they take turns of 150 ms or longer. An answer that wrote nothing is given only after the store has confirmed that no other runtime had
// written when the command was asked, unless Options.SingleOwner is set.
package entity
