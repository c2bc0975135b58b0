package driver

import "github.com/annals-go/annals"

// Driver is a backend, or a backend within one transaction. Its methods, and those of the contracts that it returns, may be called
// from many goroutines at once. Arguments are valid, and only what the Capabilities claim is called: a contract that they do not claim may be
// nil. New and InTx read the Capabilities once. Close releases the backend: it is called once, when no call is under way, and not for a
// Driver within a transaction.
//
// A Driver may also be an ability.Recoverer, Skipper, StateSkipper, StateFinder, Forgetter, Watcher, Subscriber, HealthChecker or Scanner, or an
// Auditor.
//
// Loops and Recover run the caller's code between two reads. So there a Driver reads the backend within Fetch, and holds no lock or
// connection while it yields. With Count a Driver may report what any call has cost.
type Driver interface {
	annals.Store

	// Fault makes err, which a method of this Driver returned, an *annals.Error with a Kind. The Store adds operation and entity. It is
	// not called for an error that is an *annals.Error already.
	Fault(err error) error
}

// Unsupported is an annals.Store that refuses everything. Embed it in a Driver for the contracts that the backend lacks, also those that
// later versions add.
func Unsupported() annals.Store { return New(lacking{}, Options{}) }

// lacking is a Driver that claims nothing, so nothing of its contracts is called.
type lacking struct{ Driver }

func (lacking) Journal() annals.Journal           { return nil }
func (lacking) Snapshots() annals.SnapshotStore   { return nil }
func (lacking) States() annals.StateStore         { return nil }
func (lacking) Query() annals.Query               { return nil }
func (lacking) Offsets() annals.OffsetStore       { return nil }
func (lacking) Capabilities() annals.Capabilities { return annals.Capabilities{} }
func (lacking) Close() error                      { return nil }
