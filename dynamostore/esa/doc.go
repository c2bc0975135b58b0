// Package esa is the layout of dynamostore for the tables of the event-store-adapter libraries, which exist for Go, JavaScript, Rust and
// Java. Give a Layout with the settings of the library to dynamostore.Open. docs/layouts/esa.md maps the settings.
//
// An aggregate has one row for each event in the journal table, and one head in the snapshot table. The head has the version, which is the
// number of events that were ever stored, and the state as the libraries load it. Each write puts its events, on condition that
// there are none at their keys, and updates the head, on condition that it has the version that the writer knows. All of that is
// one transaction, also for several events. Nothing is read before a write. In the tables of version 5.x for Rust, the heads are in a third
// table: they have the last number, and the events of the last commit in place of the state.
//
// The rows are those of the library that Layout.Peer names, attribute by attribute. Rows of all libraries with the same keys are read.
//
// # Caveats
//
// The libraries for Go, JavaScript and Rust 5.x can write to the same aggregates at the same time. Those of Rust up to 3.x and of Java put
// events without a condition, so they can replace an event: let them write to other aggregates, or stop them first.
//
// The libraries do not know of deletes. When one of them still reads an aggregate, delete only events that are in the state of its head.
package esa
