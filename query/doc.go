// Package query follows what a store shows: new events and states, in order, each once.
//
//	feed, err := query.NewFeed(store, annals.Filter{Type: "Thread"}, position, query.Options{})
//	batch, err := feed.Next(ctx, 100)
//
//	for event, err := range query.Events(ctx, store, annals.Filter{Type: "Thread"}, query.Options{}) { … }
//
// Package projection handles the events of a Feed and saves how far it has come. Events, EventsOf, States and IDs are for programs that
// save nothing or save their position themselves. All of them work on every store, and need nothing but the Query of the store, its
// Journal where events can become visible late, and its Watcher where it has one.
//
// # How a Feed skips nothing and hands over nothing twice
//
// A store can show an event after one with a later Offset: see annals.Capabilities.Lateness. So a Feed asks for the watermark of the
// store, reads, and then everything before the watermark has been handed over: its floor. What is beyond the floor is read again at the
// next look, and the Feed remembers, for each entity there, what it has handed over. When the number of an event is not the one that
// follows, the Feed reads the missing events in the journal and hands them over before it.
//
// docs/how-nothing-is-skipped.md explains this, with the bounds of each store.
package query
