// Package projection runs projections: handlers that follow the events of a store, and remember how far they have come.
//
// ExactlyOnce is for a read model in a database of a store: the handler's writes and the projection's position are committed in one
// transaction. AtLeastOnce is for everything else. Both have a grouped variant, which hands over several events at a time. No event is
// left out, whatever order the events become visible in, and the events of one entity are handled in the order of their numbers.
package projection
