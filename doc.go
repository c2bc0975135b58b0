// Package annals is event sourcing and durable state for Go.
//
// This root package holds the vocabulary and the contracts between domain code and stores; it imports the standard
// library only. Applications import entity or aggregate and one store; authors of stores import this package and
// storetest.
//
// # The life of a command
//
// entity.Runtime (or aggregate.Repository) finds the entity by its PersistenceID, recovers it with Recover (the newest
// Snapshot, then the events behind it), lets the behavior decide, and hands what was decided to Journal.Append as one
// Commit. The caller gets its reply when the store has acknowledged the commit, never before.
//
// # The life of an event
//
// An event is a Go value of the domain. A codec turns it into a Payload, a Commit carries it to the store, which numbers
// it (SeqNr), dates it (Event.Time) and stores it whole with its neighbours or not at all. Replay yields it to
// recoveries, Query.Events to followers, in the order of Offset.
//
// # Promises
//
// Of the writers that append after the same number exactly one wins. A batch is stored whole or not at all. A write whose
// answer was lost is recognised by its WriteID when it is sent again. A replay is complete or ends in an error. Numbers
// never come back. Where a store cannot keep one of these its Capabilities and its documentation say so, and package
// storetest checks the claims both ways.
package annals
