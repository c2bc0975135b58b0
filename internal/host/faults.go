package host

import (
	"errors"
	"reflect"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/valid"
)

// Faults returns all faults of b in one error.
func Faults[C, E, S, R any](b behavior.EventSourced[C, E, S, R]) error {
	return errors.Join(
		valid.OwnType(b.Type), missing("Decide", b.Decide == nil),
		fault(b.Evolve == nil && b.EvolveStored == nil, "Evolve and EvolveStored are both nil: set one of them"),
		fault(b.Evolve != nil && b.EvolveStored != nil, "Evolve and EvolveStored are both set: set one of them"),
		fault(b.Metadata != nil && b.EvolveStored == nil, "Metadata is set without EvolveStored"),
		missing("Events (E is an interface)", b.Events == nil && isInterface[E]()),
		missing("States (S is an interface)", b.States == nil && b.SnapshotEvery > 0 && isInterface[S]()),
		fault(b.SnapshotEvery < 0, "SnapshotEvery is negative"),
		valid.Codec(b.Events), valid.Codec(b.States), valid.Codec(b.Metadata))
}

// StateFaults returns all faults of b in one error.
func StateFaults[C, S, R any](b behavior.DurableState[C, S, R]) error {
	return errors.Join(valid.OwnType(b.Type), missing("Decide", b.Decide == nil),
		fault(b.Metadata != nil && b.Stored == nil, "Metadata is set without Stored"),
		missing("States (S is an interface)", b.States == nil && isInterface[S]()), valid.Codec(b.States), valid.Codec(b.Metadata))
}

func missing(name string, is bool) error { return fault(is, name+" is nil") }

func fault(is bool, text string) error {
	if is {
		return errors.New("behavior: " + text)
	}
	return nil
}

func isInterface[T any]() bool { return reflect.TypeFor[T]().Kind() == reflect.Interface }
