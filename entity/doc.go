// Package entity keeps entities in memory: it activates an entity on its first command, recovers it from the store, runs
// its commands one at a time and answers each when the store has acknowledged what it decided.
//
// While a write is in flight the commands that wait are decided against the state that the write will produce, and go out
// as the next single write: a busy entity's throughput is commands per batch times the store's writes per second.
//
// What an answer means:
//
//   - A reply: everything the command decided, and everything it was decided on, is stored.
//   - The domain's own error: the command was rejected, by a state that is stored. It wrote nothing.
//   - annals.ErrUnknown: the write may or may not have happened; the runtime does not run the command again. A caller
//     that repeats it runs it twice unless the behavior finds the command's id in its state.
//   - Any other *annals.Error: the command did nothing.
//
// # Caveats
//
// Several runtimes, in one process or many, may run the same entity: the store lets one writer win, the other reloads and
// decides again. The reply to a command that writes nothing comes from memory and may miss what another owner has
// written meanwhile; Fresh asks the store first.
package entity
