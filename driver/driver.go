package driver

import (
	"context"

	"github.com/annals-go/annals"
)

// Driver is a backend, or a backend within one transaction. Its methods, and those of the contracts that it returns, may be called
// from many goroutines at once. Arguments are valid, and only what the Capabilities claim is called: a contract that they do not claim may be
// nil. New and InTx read the Capabilities once. Close releases the backend: it is called once, when no call is under way, and not for a
// Driver within a transaction.
//
// A Driver may also be an ability.Recoverer, Skipper, StateSkipper, StateFinder, Forgetter, Watcher, Subscriber or HealthChecker, and a
// Savepointer.
//
// Loops and Recover run the caller's code between two reads. So there a Driver reads the backend within Fetch, and holds no lock or
// connection while it yields. With Count a Driver may report what any call has cost.
type Driver interface {
	annals.Store

	// Fault makes err, which a method of this Driver returned, an *annals.Error with a Kind. The Store adds operation and entity. It is
	// not called for an error that is an *annals.Error already.
	Fault(err error) error
}

// Savepointer is an optional ability of a Driver: it is told before and after the backend is used, for example to set savepoints within
// a transaction. A call is one use; in loops and in Recover each Fetch is one.
type Savepointer interface {
	// Begin returns the context for the use. An error refuses the use; End is not called then.
	Begin(ctx context.Context, c annals.Call) (context.Context, error)
	// End is given the error of the use, nil for none, and returns the error that counts.
	End(ctx context.Context, c annals.Call, err error) error
}
