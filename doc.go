// Package annals defines the contracts between programs and stores of events and durable states. It imports no other module.
//
// To write a program, describe an entity with package behavior and run it with package entity (entities stay in memory) or package
// aggregate (they do not), on one of the stores memstore, sqlitestore, pgstore and dynamostore. README.md has a first program. Of
// this package a program uses the errors (ErrConflict, ErrUnknown, …), Openers to open a store by URL, and Store where it reads or
// writes without an entity.
//
// Package projection handles the events of a store in the background, for read models and messages. Package query has live queries.
//
// Package ability has what only some stores can do, such as transactions with the program's own tables.
//
// To write a store, write a driver for package driver, and check the store with package storetest. docs/writing-a-store.md explains the
// steps.
//
// # The life of a command
//
// An entity.Runtime or an aggregate.Repository builds the PersistenceID of the entity and reads the entity with ability.Recover: the
// newest Snapshot, then the events after it. The behavior decides which events the command causes. They are stored with Journal.Append as one
// Commit. The caller gets its reply when the store has acknowledged the commit.
//
// # The life of an event
//
// An event is a Go value. A codec turns it into a Payload, and a Commit carries it to the store. The store gives it a number (SeqNr)
// and a time (Event.Time) and stores all events of the commit or none. Replay reads the events of one entity in the order of their
// numbers; Query.Events reads the events of many entities in the order of their Offset.
//
// # Promises
//
//   - When several writers append after the same number, exactly one succeeds.
//   - A commit is stored whole or not at all.
//   - A write whose answer was lost is recognised by its WriteID when it is sent again.
//   - A replay has every event that was acknowledged, or ends with an error. A row that was lost later is an error where other rows prove the
//     loss. In tables that another system wrote, a lost event can look like a number that was left unused: Result.Unused counts these,
//     package verify finds them, and a store with Options.Strict refuses them. The documents of each store say which losses go unnoticed.
//   - Sequence numbers are never used twice.
//
// A store that cannot keep one of these says so in its Capabilities and its documentation. Package storetest checks that what a store
// claims is true and that what it does not claim is refused.
package annals
