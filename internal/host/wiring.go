package host

import (
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/progress"
)

// Wiring collects everything that is wrong with a behavior, its options and its store, so that Op reports it at once.
type Wiring struct {
	Op     string
	Store  annals.Store
	faults []error
	asked  []claims.Feature
}

// Fault records that err, if it is one, makes the call ErrInvalid.
func (c *Wiring) Fault(err error) {
	if err != nil {
		c.faults = append(c.faults, err)
	}
}

// Needs records that the call is ErrUnsupported on a store without the claims of f. It does nothing when the program has not asked for f,
// or has accepted such a store by the option f.Unless.
func (c *Wiring) Needs(f claims.Feature, asked, accepted bool) {
	if asked && !accepted {
		c.asked = append(c.asked, f)
	}
}

// Err is nil when all is well. It matches ErrInvalid, ErrUnsupported or both.
func (c *Wiring) Err() error {
	if c.Store == nil {
		c.faults = append(c.faults, errors.New("the store is nil"))
	}
	var invalid, unsupported error
	if c.Store != nil {
		unsupported = claims.Refusal(c.Op, c.Store.Capabilities(), c.asked...)
	}
	if len(c.faults) > 0 {
		invalid = &annals.Error{Op: c.Op, Kind: annals.ErrInvalid, Err: errors.Join(c.faults...)}
	}
	if invalid != nil && unsupported != nil {
		return errors.Join(invalid, unsupported)
	}
	if invalid != nil {
		return invalid
	}
	return unsupported
}

// NeedsSourced records what is wrong with b, an event-sourced behavior, with o and with their store.
func NeedsSourced[C, E, S, R any](c *Wiring, b behavior.EventSourced[C, E, S, R], o Config) {
	c.Fault(b.Validate())
	c.Fault(progress.Fault(o.Projections))
	if len(o.Projections) > 0 && !o.DeleteEvents {
		c.Fault(errors.New("Projections without DeleteEvents"))
	}
	if b.SnapshotEvery == 0 && o.DeleteEvents {
		c.Fault(errors.New("DeleteEvents without SnapshotEvery"))
	}
	c.Needs(claims.Events, true, false)
	c.Needs(claims.Snapshots, b.SnapshotEvery > 0, false)
	c.Needs(claims.DeleteEvents, o.DeleteEvents, o.SingleOwner)
	c.Needs(claims.Retention, len(o.Projections) > 0, false)
	c.Needs(claims.Stored, b.EvolveStored != nil, false)
	c.Needs(claims.Times, b.EvolveStored != nil, o.MayDrop)
	c.Needs(claims.Tags, b.Tags != nil, o.MayDrop)
	c.Needs(claims.Metadata, o.Metadata != nil || b.Metadata != nil, o.MayDrop)
}

// NeedsDurable is NeedsSourced for a durable-state behavior.
func NeedsDurable[C, S, R any](c *Wiring, b behavior.DurableState[C, S, R], o Config) {
	c.Fault(b.Validate())
	c.Needs(claims.States, true, false)
	c.Needs(claims.Tags, b.Tags != nil, o.MayDrop)
	c.Needs(claims.StateInfo, o.Metadata != nil || b.Metadata != nil, o.MayDrop)
}
