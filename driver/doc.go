// Package driver is for authors of stores. A backend implements a Driver, and New puts in front of it what all stores have in
// common, so that each operation means the same everywhere:
//
//   - Arguments and filters are validated against the Limits of the store. What its Capabilities do not claim is ErrUnsupported.
//   - A call whose context has ended is ErrUnavailable, one after Close is ErrClosed, and one after the end of its transaction is
//     ErrClosed. A write to the outer store within one of its transactions is ErrInvalid.
//   - Close waits for the calls under way, and for nothing while the body of a loop runs.
//   - An Observer sees each call once, refused ones too, with the events and bytes that were read or written.
//   - Errors name the operation and the entity.
//
// A store's own type embeds a Store, which has the contracts of annals.Store. ability.Of returns the optional abilities of its Driver.
//
// Replay and RecoverFrom read events for drivers that read pages: a Reader says what is stored, and they decide what is complete, truncated
// or corrupt.
//
// Package memstore is the driver to read first. Package storetest checks a store.
package driver
