package host

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/progress"
)

// Default gives n, the option of that name, its default when n is 0. It returns what is wrong with n, or nil.
func Default[T int | time.Duration](name string, n *T, otherwise T) error {
	if *n < 0 {
		return fmt.Errorf("%s is %v", name, *n)
	}
	*n = cmp.Or(*n, otherwise)
	return nil
}

// need is a feature that a behavior and its options need, if the program has asked for it and has not accepted a store without it by the
// option Feature.Unless.
type need struct {
	feature claims.Feature
	is      bool
}

// refusal is everything that is wrong with a behavior, its options and its store: ErrInvalid with the faults, ErrUnsupported with the needs
// that the store does not meet, or both. It is nil when all is well.
func refusal(op string, store annals.Store, faults []error, needs []need) error {
	var invalid, unsupported error
	if store == nil {
		faults = append(faults, errors.New("the store is nil"))
	} else {
		var asked []claims.Feature
		for _, n := range needs {
			if n.is {
				asked = append(asked, n.feature)
			}
		}
		unsupported = claims.Refusal(op, store.Capabilities(), asked...)
	}
	if err := errors.Join(faults...); err != nil {
		invalid = &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: err}
	}
	return errors.Join(invalid, unsupported)
}

func refuseSourced[C, E, S, R any](store annals.Store, b behavior.EventSourced[C, E, S, R], c Config) error {
	faults := []error{c.Faults, Faults(b), progress.Fault(c.Projections)}
	if len(c.Projections) > 0 && !c.DeleteEvents {
		faults = append(faults, errors.New("Projections without DeleteEvents"))
	}
	if b.SnapshotEvery == 0 && c.DeleteEvents {
		faults = append(faults, errors.New("DeleteEvents without SnapshotEvery"))
	}
	return refusal(c.Host+".New", store, faults, []need{
		{claims.Events, true},
		{claims.Snapshots, b.SnapshotEvery > 0},
		{claims.DeleteEvents, c.DeleteEvents && !c.SingleOwner},
		{claims.Retention, len(c.Projections) > 0},
		{claims.Stored, b.EvolveStored != nil},
		{claims.Times, b.EvolveStored != nil && !c.MayDrop},
		{claims.Tags, b.Tags != nil && !c.MayDrop},
		{claims.Metadata, (c.Metadata != nil || b.Metadata != nil) && !c.MayDrop},
	})
}

func refuseDurable[C, S, R any](store annals.Store, b behavior.DurableState[C, S, R], c Config) error {
	return refusal(c.Host+".NewState", store, []error{c.Faults, StateFaults(b)}, []need{
		{claims.States, true},
		{claims.Tags, b.Tags != nil && !c.MayDrop},
		{claims.StateInfo, (c.Metadata != nil || b.Metadata != nil) && !c.MayDrop},
	})
}
