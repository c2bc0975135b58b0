// Package process runs process managers: they react to events of several entities by sending commands and setting timers, until a business
// process, such as an order, has come to its end.
//
//	runner, err := process.New(store, checkout, []process.Source{process.From(orders, orderOf)}, []process.Recipients{process.To(items, sendItem)}, process.Options{})
//	err = runner.Run(ctx)
//
// A Process is plain functions, without a store: React gets an input and returns a Step, which has commands, timers and events. Inputs are the
// events of other entities, the answers to commands, and timers. Each input goes to one instance of the process, which is an event-sourced entity: the
// step is stored in its journal, and with it which input caused it. What follows from a step is read from the journal. So no later
// version of the code changes what an instance has decided.
//
// # What is promised
//
//   - An input has its effect once, however often it is handed over. The events of one entity reach an instance in the order of their numbers.
//   - A command is sent at least once. Its id is made of the step that caused it, and the same whenever it is sent: when the recipient recognises the
//     id, the command has its effect once. The commands of an instance to one recipient are sent in the order of their steps.
//   - A timer takes effect once, and not before its time by the clock of the process that looks. When it was due while nothing ran, it takes effect as soon as
//     something runs. When a step that cancels it is stored, it never takes effect.
//   - An instance keeps the version of the Process under which it began, and React is told that version.
//
// Any number of runners, in any number of processes, share the work. All of these promises hold when they are killed.
//
// # Failures
//
// An input that React cannot handle, because it returns an error, or it or Evolve panics, waits in the journal of its instance, and so do the later events
// and timers of this instance. A command whose recipient fails waits, too, with what its instance sends later. What its instance has sent beside it is
// noted, and is not sent again later than a minute after its step. Such an instance is parked: the others go on.
//
// An answer waits with its reply as JSON. A reply that is another one when it is read from JSON cannot wait, and neither can a rejection, whose command had no
// effect: these commands wait as if the recipient had failed, and are sent again.
//
// So recipients must know an id for longer than the longest time in which no Runner runs. When a reply cannot wait, its recipient must know the id until React
// can handle the reply, and when the instance can be neither read nor written, as with an Evolve that panics for what is stored, until it can.
//
// A Runner tries again by itself, after a second at first and later each minute. Runner.Control shows what is parked, and orders a
// retry or leaves out what waits.
//
// # Tests
//
// Package processtest tests a Process with a clock of its own, and without a store.
package process
