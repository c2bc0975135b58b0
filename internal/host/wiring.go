package host

import (
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
)

// Wiring collects everything that is wrong with a behavior, its options and its store, so that Op reports it at once.
type Wiring struct {
	Op     string
	Store  annals.Store
	faults []error
	lacks  []error
}

// Fault records that err, if it is one, makes the call ErrInvalid.
func (c *Wiring) Fault(err error) {
	if err != nil {
		c.faults = append(c.faults, err)
	}
}

// Needs records that without has the call is ErrUnsupported.
func (c *Wiring) Needs(what string, has func(annals.Capabilities) bool) {
	if c.Store != nil && !has(c.Store.Capabilities()) {
		c.lacks = append(c.lacks, errors.New("the store has no "+what))
	}
}

// Err is nil when all is well. It matches ErrInvalid, ErrUnsupported or both.
func (c *Wiring) Err() error {
	if c.Store == nil {
		c.faults = append(c.faults, errors.New("the store is nil"))
	}
	var invalid, unsupported error
	if len(c.faults) > 0 {
		invalid = &annals.Error{Op: c.Op, Kind: annals.ErrInvalid, Err: errors.Join(c.faults...)}
	}
	if len(c.lacks) > 0 {
		unsupported = &annals.Error{Op: c.Op, Kind: annals.ErrUnsupported, Err: errors.Join(c.lacks...)}
	}
	if invalid != nil && unsupported != nil {
		return errors.Join(invalid, unsupported)
	}
	if invalid != nil {
		return invalid
	}
	return unsupported
}

// NeedsEvents records what an event-sourced behavior needs that takes a snapshot every n events, 0 for none, and whose events are deleted,
// or not, once projections have handled them.
func (c *Wiring) NeedsEvents(n int, deleteEvents bool, projections []string) {
	c.Fault(progress.Fault(projections))
	if len(projections) > 0 {
		if !deleteEvents {
			c.Fault(errors.New("Projections without DeleteEvents"))
		}
		c.Needs("offsets of projections", func(c annals.Capabilities) bool { return c.Offsets })
	}
	if n < 0 {
		c.Fault(errors.New("SnapshotEvery is below zero"))
	}
	if n == 0 && deleteEvents {
		c.Fault(errors.New("DeleteEvents without SnapshotEvery"))
	}
	c.Needs("events", func(c annals.Capabilities) bool { return c.Events })
	if n > 0 {
		c.Needs("snapshots", func(c annals.Capabilities) bool { return c.Snapshots })
	}
}

// NeedsStates records what a durable-state behavior needs.
func (c *Wiring) NeedsStates() {
	c.Needs("durable states", func(c annals.Capabilities) bool { return c.States })
}

// NeedsReceipts records what an event-sourced behavior with EvolveStored needs: the state after an event is not known before the event
// is stored.
func (c *Wiring) NeedsReceipts() {
	c.Needs("first commit without a snapshot, which EvolveStored needs", func(c annals.Capabilities) bool { return !c.Limits.FirstSnapshot })
}
