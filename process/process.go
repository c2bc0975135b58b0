package process

import (
	"errors"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/host"
)

// Process describes a process manager with events E and state S of its own. Type and React are required. One value serves all instances: its
// functions are called from many goroutines at once.
type Process[E, S any] struct {
	Type string // of the instances, which are entities; as in behavior.EventSourced
	// Version is that of React. An instance keeps the Version under which it began: see Input.
	Version int
	// React returns what an input causes in the state s. It must not change s, and it may be called again for an input. An error, and a
	// panic, say that the input cannot be handled now: it waits, and so does what comes later for this instance. An input that is of no
	// interest is answered with the zero Step.
	React func(s S, in Input) (Step[E], error)
	// Evolve returns the state after e, as in behavior.EventSourced; nil when React returns no events. It is called before e is stored: a
	// panic counts as one of React.
	Evolve func(s S, e E) S
	Init   func(id string) S // state of an instance without events; nil: the zero S

	Events        codec.Codec[E] // nil: JSON with manifest Type
	States        codec.Codec[S] // of snapshots; nil: JSON with manifest Type
	SnapshotEvery int            // events between two snapshots, counting one for each step; 0: no snapshots
}

// Input is what a Process reacts to.
type Input struct {
	ID      string    // of the instance
	Version int       // the Process.Version under which the instance began
	Time    time.Time // when the event was stored; of an answer, of a timer, and on a store without times: when the input was handled
	// Value is the value of an event, of the type E of its Source, or an Answer, or a Fired.
	Value any
	Event annals.Event // where a value comes from; zero for an Answer and a Fired
}

// Answer is the input that comes after a command that was sent with Target.Ask.
type Answer struct {
	Command Command
	Reply   any   // of the type R that To was given; its zero value after a rejection
	Err     error // the rejection of the recipient; nil: there is a reply
}

// Fired is the input that comes at the time of a timer, or later.
type Fired struct {
	Name string
}

// Step is what an input causes. The zero Step is nothing. All of it is stored, or nothing.
type Step[E any] struct {
	Events   []E       // change the state
	Commands []Command // are sent; those to one recipient in this order
	Timers   []Timer   // are set. A timer whose name is set already gets the new time
	Cancel   []string  // names of timers that are to have no effect, before Timers are set; names that are not set are ignored
	// End says that the instance has come to its end: it ignores all later inputs, timers included, and keeps nothing for them. The commands
	// of the step are sent. An instance never begins again.
	End bool
}

// Timer is a Fired input at a later time. Each instance has timers of its own; Name tells them apart.
type Timer struct {
	Name string    // 1 to 1,024 bytes
	Due  time.Time // in the years 2 to 9999; rounded up to microseconds
}

// Validate returns all faults of p in one error. New calls it.
func (p Process[E, S]) Validate() error {
	var faults []error
	if p.React == nil {
		faults = append(faults, errors.New("React is missing"))
	}
	return errors.Join(append(faults, host.Faults(p.behavior()))...)
}
