// Package offsets keeps the positions of projections in a table, for any layout.
package offsets

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/position"
	"github.com/annals-go/annals/internal/quote"
)

// Store is annals.OffsetStore. A projection has one partition in the table, with an item for each range of slices that a worker has saved.
// The ranges of the items do not overlap. A save for the slices of one item replaces this item, on condition of the revision that it has
// read. A save for other slices divides and joins items in one transaction, which also increases the revision of the item cut: so two of
// them cannot store overlapping items.
type Store struct {
	Table, Hash, Range string // the table's name and key; the range key is a number
	MaxHash            int    // the most bytes of a hash key
	NewSave            func([]byte)
	Executor           plan.Executor // runs the requests
}

// Most is the most offsets in one save.
const Most = 1000

const saveBytes = 8 // of the id of a save

// maxJoined is the most items that one transaction joins. Items above that are joined before, in further transactions.
const maxJoined = 90

// Load is annals.OffsetStore.
func (o Store) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	all, err := o.all(ctx, projection)
	if err != nil {
		return nil, err
	}
	return all.Load(r), nil
}

// Handled is annals.OffsetStore.
func (o Store) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	all, err := o.all(ctx, projection)
	if err != nil {
		return nil, err
	}
	handled := make([]annals.Offset, len(ids))
	for i, id := range ids {
		handled[i] = all.Handled(id)
	}
	return handled, nil
}

// all reads all that is known of a projection.
func (o Store) all(ctx context.Context, projection string) (position.Projection, error) {
	portions, _, err := o.partition(ctx, projection)
	return joined(portions), err
}

// joined returns what is known of the slices of all portions.
func joined(portions []portion) (all position.Projection) {
	for _, p := range portions {
		all = all.Join(p.Projection)
	}
	return all
}

// Save is annals.OffsetStore.
func (o Store) Save(ctx context.Context, p annals.Progress) error {
	return o.update(ctx, p.Projection, p.Slices, p.Once, func(k position.Projection) (position.Projection, error) { return k.Save(p) })
}

// Reset is annals.OffsetStore.
func (o Store) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	return o.update(ctx, projection, r, false, func(k position.Projection) (position.Projection, error) { return k.Reset(r, to), nil })
}

// Forget is annals.OffsetStore. It leaves the slices of the items as they are.
func (o Store) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	stored, _, err := o.partition(ctx, projection)
	if err != nil {
		return err
	}
	for _, p := range stored {
		if p.Projection.Forget(ids...).Equal(p.Projection) {
			continue
		}
		err := o.update(ctx, projection, annals.SliceRange{From: p.from, To: p.to}, false, func(k position.Projection) (position.Projection, error) { return k.Forget(ids...), nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// update changes what is known of the slices of r. When another worker writes to one of the items in between, update reads again. With once,
// change must not be made twice: when a worker has written after a try whose answer was lost, the outcome cannot be known.
func (o Store) update(ctx context.Context, projection string, r annals.SliceRange, once bool, change func(position.Projection) (position.Projection, error)) error {
	save := make([]byte, saveBytes)
	o.NewSave(save)
	for {
		ops, err := o.changes(ctx, projection, r, save, change)
		if len(ops) == 0 || err != nil {
			return err
		}
		_, err = o.Executor.Write(ctx, plan.Write{Ops: ops, Refused: func(_ []plan.Item, open bool) error {
			if open && once {
				return &annals.Error{Kind: annals.ErrUnknown, Err: errors.New("another worker has saved after a try whose answer was lost")}
			}
			return &annals.Error{Kind: annals.ErrConflict, Err: fmt.Errorf("another worker of projection %s has saved", quote.Text(projection))}
		}})
		if !errors.Is(err, annals.ErrConflict) {
			return err
		}
	}
}

// changes returns the writes of an update.
func (o Store) changes(ctx context.Context, projection string, r annals.SliceRange, save []byte, change func(position.Projection) (position.Projection, error)) ([]plan.Op, error) {
	stored, cut, err := o.portions(ctx, projection, r)
	if err != nil {
		return nil, err
	}
	known := joined(stored)
	changed, err := change(known)
	if err != nil || changed.Equal(known) {
		return nil, err
	}
	from, to := known.Ranges.Bounds(r)
	bounds := []int{from, to}
	switch n := len(stored); {
	case cut == nil:
		return []plan.Op{o.put(projection, portion{from: from, to: to, revision: stored[0].revision, Projection: changed}, save)}, nil
	case n > maxJoined:
		some := stored[:maxJoined]
		ops := o.replace(projection, some, *cut, save, known, []int{some[0].from, some[maxJoined-1].to})
		if _, err := o.Executor.Write(ctx, plan.Write{Ops: ops, Apart: true}); err != nil && !errors.Is(err, annals.ErrConflict) {
			return nil, err
		}
		return o.changes(ctx, projection, r, save, change)
	case n > 0:
		if first := stored[0].from; first < from {
			bounds = append([]int{first}, bounds...)
		}
		if end := stored[n-1].to; end > to {
			bounds = append(bounds, end)
		}
	}
	return o.replace(projection, stored, *cut, save, changed, bounds), nil
}

// replace returns the writes that replace stored by items of changed with these bounds.
func (o Store) replace(projection string, stored []portion, cut portion, save []byte, changed position.Projection, bounds []int) []plan.Op {
	revisions := map[int]int64{}
	for _, p := range stored {
		revisions[p.from] = p.revision
	}
	ops := []plan.Op{o.put(projection, cut, save)}
	for i, from := range bounds[:len(bounds)-1] {
		to := bounds[i+1]
		ops = append(ops, o.put(projection, portion{from: from, to: to, revision: revisions[from], Projection: changed.Within(annals.SliceRange{From: from, To: to})}, save))
		delete(revisions, from)
	}
	for from, revision := range revisions {
		ops = append(ops, plan.Op{Table: o.Table, Key: o.key(projection, from), Delete: true, Condition: "#rev = :rev",
			Names: map[string]string{"#rev": attrRevision}, Values: plan.Item{":rev": plan.N(revision)}})
	}
	return ops
}

// put stores p, unless the item has been written since it was read.
func (o Store) put(projection string, p portion, save []byte) plan.Op {
	it := o.key(projection, p.from)
	maps.Copy(it, p.item())
	it[attrSave] = plan.B(save)
	op := plan.Create(o.Table, it, o.Hash)
	op.Ours = func(old plan.Item) bool {
		b, _ := plan.Bytes(old, attrSave)
		return string(b) == string(save)
	}
	if p.revision > 0 {
		op.Condition, op.Names, op.Values = "#rev = :rev", map[string]string{"#rev": attrRevision}, plan.Item{":rev": plan.N(p.revision)}
	}
	return op
}

// portions reads the items that overlap r, in order. cut is the item cut for r, nil when an item has exactly the slices of r.
func (o Store) portions(ctx context.Context, projection string, r annals.SliceRange) (portions []portion, cut *portion, err error) {
	if err := o.fitsKey(projection); err != nil {
		return nil, nil, err
	}
	if r != (annals.SliceRange{}) {
		it, ok, err := o.Executor.Get(ctx, plan.Get{Table: o.Table, Key: o.key(projection, r.From)})
		if err != nil {
			return nil, nil, err
		}
		if ok {
			p, err := o.portionOf(it)
			if err != nil {
				return nil, nil, err
			}
			if p.to == r.To {
				return []portion{p}, nil, nil
			}
		}
	}
	all, cuts, err := o.partition(ctx, projection)
	from, to := position.Overlap(r)
	for _, p := range all {
		if p.from < to && p.to > from {
			portions = append(portions, p)
		}
	}
	if from, to = joined(portions).Ranges.Bounds(r); len(portions) == 1 && portions[0].from == from && portions[0].to == to {
		return portions, nil, err
	}
	cut = &portion{from: (from/annals.SliceCount + 1) * annals.SliceCount}
	for _, c := range cuts {
		if c.from == cut.from {
			cut.revision = c.revision
		}
	}
	return portions, cut, err
}

// partition reads all items of a projection, in order, and apart from them the items cut.
func (o Store) partition(ctx context.Context, projection string) (portions, cuts []portion, err error) {
	if err := o.fitsKey(projection); err != nil {
		return nil, nil, err
	}
	end := 0
	for it, err := range o.Executor.Query(ctx, plan.Query{Table: o.Table, Hash: partitionKey(projection)}) {
		if err != nil {
			return nil, nil, err
		}
		p, err := o.portionOf(it)
		switch {
		case err != nil:
			return nil, nil, err
		case p.to == 0:
			cuts = append(cuts, p)
			continue
		case p.from < end:
			return nil, nil, corrupt(fmt.Errorf("two items have slice %d", p.from))
		}
		portions, end = append(portions, p), p.to
	}
	return portions, cuts, nil
}

// partitionKey contains U+0000, which no id of an entity does.
func partitionKey(projection string) string { return projection + "\x00#" }

func (o Store) key(projection string, from int) plan.Item {
	return plan.Item{o.Hash: plan.S(partitionKey(projection)), o.Range: plan.N(from)}
}

// fitsKey returns ErrInvalid for a projection whose name is too long for a key.
func (o Store) fitsKey(projection string) error {
	if n := len(partitionKey(projection)); n > o.MaxHash {
		return plan.Misfit("the projection's name has %d bytes too many", n-o.MaxHash)
	}
	return nil
}
