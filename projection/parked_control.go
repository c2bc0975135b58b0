package projection

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/annals-go/annals"
)

// Parked returns the parked entities in the order of their ids.
func (c *Control) Parked(ctx context.Context) ([]ParkedEntity, error) {
	if _, err := c.read(ctx, "list parked entities of"); err != nil {
		return nil, err
	}
	parked, err := c.parked(ctx)
	return parked.sorted(), err
}

// parked returns the parked entities without those that come again.
func (c *Control) parked(ctx context.Context) (parkedEntities, error) {
	all, _, err := parkedOf(c.name).load(ctx, c.store)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(all))
	offsets, err := c.store.Offsets().Handled(ctx, c.name, ids...)
	if err != nil {
		return nil, err
	}
	handled := map[annals.PersistenceID]annals.Offset{}
	for i, id := range ids {
		handled[id] = offsets[i]
	}
	waiting, _ := all.split(handled)
	return waiting, nil
}

// Retry orders that the waiting events of the given parked entities are handled, without ids those of all. It does not wait for that: the
// runner that holds the slices of an entity handles its events in their order, within seconds. Then the entity is not parked any more. When
// an event fails again, the entity stays parked at that event, with ParkedEntity.Tries one higher, unless OnError says Skip or Stop.
// ErrInvalid when one of ids is not parked; then nothing is ordered.
func (c *Control) Retry(ctx context.Context, ids ...annals.PersistenceID) error {
	return c.order(ctx, "retry", func(parked parkedEntities) error {
		chosen := ids
		if len(ids) == 0 {
			chosen = slices.Collect(maps.Keys(parked))
		}
		for _, id := range chosen {
			x, ok := parked[id]
			if !ok {
				return c.notParked("retry", id)
			}
			x.Retry = true
			parked[id] = x
		}
		return nil
	})
}

// Discard orders that the waiting events of the parked entity id up to the number to are left out, and that those after to are handled, as
// Retry does. With ParkedEntity.From as to it is one event, with annals.MaxSeqNr all that wait when a runner carries out the order.
// ErrInvalid when id is not parked, or when to is below the first event that waits.
func (c *Control) Discard(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	return c.order(ctx, "discard", func(parked parkedEntities) error {
		x, ok := parked[id]
		switch {
		case !ok:
			return c.notParked("discard", id)
		case to < x.From:
			return c.fault("discard events of", annals.ErrInvalid, fmt.Errorf("entity %s: up to %d, but the first that waits is %d", annals.Quote(string(id)), to, x.From))
		}
		x.Retry, x.DiscardTo = true, max(x.DiscardTo, to)
		parked[id] = x
		return nil
	})
}

func (c *Control) notParked(op string, id annals.PersistenceID) error {
	return c.fault(op+" events of", annals.ErrInvalid, fmt.Errorf("entity %s is not parked", annals.Quote(string(id))))
}

// order changes the parked entities, and tells the runners to look at them.
func (c *Control) order(ctx context.Context, op string, change func(parkedEntities) error) error {
	if _, err := c.read(ctx, op); err != nil {
		return err
	}
	if err := parkedOf(c.name).change(ctx, c.store, func(p *parkedEntities) error { return change(*p) }); err != nil {
		return err
	}
	return c.change(ctx, op, func(r *record) error {
		r.Orders++
		return nil
	})
}
