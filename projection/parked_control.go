package projection

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// Parked yields the parked entities after the entity after, "" for all: those of one slice after the other, and within a slice in the order of
// their ids. A page ends where the loop is left, and its last id is where the next one begins. An error comes once, last.
func (c *Control) Parked(ctx context.Context, after annals.PersistenceID) iter.Seq2[ParkedEntity, error] {
	return func(yield func(ParkedEntity, error) bool) {
		for p, err := range c.parked(ctx, after) {
			if err != nil {
				yield(ParkedEntity{}, err)
				return
			}
			for _, x := range p.sorted() {
				if (p.slice > after.Slice() || x.ID > after) && !yield(x, nil) {
					return
				}
			}
		}
	}
}

// parked yields the slices from that of after on, "" for all, without the entities that come again.
func (c *Control) parked(ctx context.Context, after annals.PersistenceID) iter.Seq2[parkedSlice, error] {
	return func(yield func(parkedSlice, error) bool) {
		if err := c.complete("list parked entities of"); err != nil {
			yield(parkedSlice{}, err)
			return
		}
		var handled *start
		for p, err := range allParked(ctx, c.store, c.name, annals.SliceRange{From: after.Slice(), To: annals.SliceCount}) {
			if err == nil && handled == nil {
				var positions []annals.Position
				positions, err = c.store.Offsets().Load(ctx, c.name, annals.SliceRange{})
				from := newStart(positions, annals.Offset{})
				handled = &from
			}
			if err != nil {
				yield(parkedSlice{}, err)
				return
			}
			p.remove(func(x ParkedEntity) bool { return handled.covers(x.offset()) })
			if !yield(p, nil) {
				return
			}
		}
	}
}

// Retry orders that the waiting events of the given parked entities are handled, without ids those of all. It does not wait for that: the
// runner that holds the slices of an entity handles its events in their order, within seconds. Then the entity is not parked any more. When
// an event fails again, the entity stays parked at that event, with ParkedEntity.Tries one higher, unless OnError says Skip or Stop.
// ErrInvalid when one of ids is not parked; then nothing is ordered. After another error a part may be ordered: repeat Retry.
func (c *Control) Retry(ctx context.Context, ids ...annals.PersistenceID) error {
	const op = "retry"
	chosen := map[int][]annals.PersistenceID{} // by slice
	for _, id := range ids {
		chosen[id.Slice()] = append(chosen[id.Slice()], id)
	}
	if _, err := c.ran(ctx, op); err != nil {
		return err
	}
	for slice, ids := range chosen {
		p, err := loadParked(ctx, c.store, c.name, slice)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, ok := p.entities[id]; !ok {
				return c.notParked(op, id)
			}
		}
	}
	if len(ids) == 0 {
		for p, err := range allParked(ctx, c.store, c.name, annals.SliceRange{}) {
			if err != nil {
				return err
			}
			if len(p.entities) > 0 {
				chosen[p.slice] = nil
			}
		}
	}
	for slice, ids := range chosen {
		if err := parkedOf(c.name, slice).Change(ctx, c.store, func(p *parkedEntities) error {
			for id, x := range *p {
				if ids == nil || slices.Contains(ids, id) {
					x.Retry = true
					(*p)[id] = x
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return c.ordered(ctx, op)
}

// Discard orders that the waiting events of the parked entity id up to the number to are left out, and that those after to are handled, as
// Retry does. With ParkedEntity.From as to it is one event, with annals.MaxSeqNr all that wait when a runner carries out the order.
// ErrInvalid when id is not parked, or when to is below the first event that waits.
func (c *Control) Discard(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	const op = "discard"
	if _, err := c.ran(ctx, op); err != nil {
		return err
	}
	if err := parkedOf(c.name, id.Slice()).Change(ctx, c.store, func(p *parkedEntities) error {
		x, ok := (*p)[id]
		switch {
		case !ok:
			return c.notParked(op, id)
		case to < x.From:
			return c.fault("discard events of", annals.ErrInvalid, fmt.Errorf("entity %s: up to %d, but the first that waits is %d", quote.Text(string(id)), to, x.From))
		}
		x.Retry, x.DiscardTo = true, max(x.DiscardTo, to)
		(*p)[id] = x
		return nil
	}); err != nil {
		return err
	}
	return c.ordered(ctx, op)
}

func (c *Control) notParked(op string, id annals.PersistenceID) error {
	return c.fault(op+" events of", annals.ErrInvalid, fmt.Errorf("entity %s is not parked", quote.Text(string(id))))
}

// ordered tells the runners to look at the parked entities.
func (c *Control) ordered(ctx context.Context, op string) error {
	return c.change(ctx, op, func(r *record) { r.Orders++ })
}
