// Package offsets keeps the positions of projections in a table, for any layout.
package offsets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/position"
	"github.com/annals-go/annals/internal/quote"
)

// Store is annals.OffsetStore. A projection has one partition in the table, with an item for each range of slices that a worker has saved.
// Each slice is in one item; those without a save are in items without a position. A save for the slices of one item replaces this item, on
// condition of the revision that it has read. A save for other slices divides and joins items in one transaction, which also increases the revision of
// the item cut: so two of them cannot store overlapping items. The revision of the item that a slice is in only grows.
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
	stored, _, err := o.portions(ctx, projection, r)
	if err != nil {
		return nil, err
	}
	return joined(stored).Load(r), nil
}

// Handled is annals.OffsetStore.
func (o Store) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	stored, _, err := o.partition(ctx, projection)
	if err != nil {
		return nil, err
	}
	all := joined(stored)
	handled := make([]annals.Offset, len(ids))
	for i, id := range ids {
		handled[i] = all.Handled(id)
	}
	return handled, nil
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
	for {
		ops, err := o.changes(ctx, projection, r, change)
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
func (o Store) changes(ctx context.Context, projection string, r annals.SliceRange, change func(position.Projection) (position.Projection, error)) ([]plan.Op, error) {
	stored, cut, err := o.portions(ctx, projection, r)
	if err != nil {
		return nil, err
	}
	known := joined(stored)
	changed, err := change(known)
	if err != nil || changed.Equal(known) {
		return nil, err
	}
	save := make([]byte, saveBytes) // not that of a write before: a read may have seen it in part, so that its items refuse this one
	o.NewSave(save)
	from, to := known.Ranges.Bounds(r)
	first := from / annals.SliceCount * annals.SliceCount
	end := first + annals.SliceCount
	switch n := len(stored); {
	case cut == nil:
		return []plan.Op{o.put(projection, portion{from: from, to: to, revision: stored[0].revision, Projection: changed}, stored[0].revision, save)}, nil
	case cut.from != end:
		return nil, plan.Misfit("the other ranges of projection %s are not of the kind of %s", quote.Text(projection), r)
	case n > maxJoined:
		some := stored[:maxJoined]
		ops := o.replace(projection, some, *cut, save, known, []int{some[0].from, some[maxJoined-1].to})
		if _, err := o.Executor.Write(ctx, plan.Write{Ops: ops, Apart: true}); err != nil && !errors.Is(err, annals.ErrConflict) {
			return nil, err
		}
		return o.changes(ctx, projection, r, change)
	case n > 0:
		first, end = stored[0].from, stored[n-1].to
	}
	return o.replace(projection, stored, *cut, save, changed, slices.Compact([]int{first, from, to, end})), nil
}

// replace returns the writes that replace stored by items of changed with these bounds.
func (o Store) replace(projection string, stored []portion, cut portion, save []byte, changed position.Projection, bounds []int) []plan.Op {
	revisions, highest := map[int]int64{}, int64(0)
	for _, p := range stored {
		if highest = max(highest, p.revision); p.revision > 0 { // or it was lost
			revisions[p.from] = p.revision
		}
	}
	ops := []plan.Op{o.put(projection, cut, cut.revision, save)}
	for i, from := range bounds[:len(bounds)-1] {
		to := bounds[i+1]
		ops = append(ops, o.put(projection, portion{from: from, to: to, revision: highest, Projection: changed.Within(annals.SliceRange{From: from, To: to})}, revisions[from], save))
		delete(revisions, from)
	}
	for from, revision := range revisions {
		ops = append(ops, plan.Op{Table: o.Table, Key: o.key(projection, from), Delete: true, Condition: "#rev = :rev",
			Names: map[string]string{"#rev": attrRevision}, Values: plan.Item{":rev": plan.N(revision)}})
	}
	return ops
}

// put stores p, unless the item has been written since it was read with a revision.
func (o Store) put(projection string, p portion, read int64, save []byte) plan.Op {
	it := o.key(projection, p.from)
	maps.Copy(it, p.item())
	it[attrSave] = plan.B(save)
	op := plan.Create(o.Table, it, o.Hash)
	op.Ours = func(old plan.Item) bool {
		b, _ := plan.Bytes(old, attrSave)
		return string(b) == string(save)
	}
	if read > 0 {
		op.Condition, op.Names, op.Values = "#rev = :rev", map[string]string{"#rev": attrRevision}, plan.Item{":rev": plan.N(read)}
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
	all, cut, err := o.partition(ctx, projection)
	from, to := position.Overlap(r)
	for _, p := range all {
		if p.from < to && p.to > from {
			portions = append(portions, p)
		}
	}
	if from, to = joined(portions).Ranges.Bounds(r); len(portions) == 1 && portions[0].from == from && portions[0].to == to {
		return portions, nil, err
	}
	if cut == nil {
		cut = &portion{from: (from/annals.SliceCount + 1) * annals.SliceCount}
	}
	return portions, cut, err
}

// partition reads all items of a projection, in order, and apart from them the item cut, nil when nothing is stored.
func (o Store) partition(ctx context.Context, projection string) (portions []portion, cut *portion, err error) {
	if err := o.fitsKey(projection); err != nil {
		return nil, nil, err
	}
	err = plan.Whole(ctx, func() (missing, err error) {
		if portions, cut, err = o.read(ctx, projection); (cut == nil) != (len(portions) == 0) {
			missing = errLost
		}
		if len(portions) > 0 {
			var fault error
			portions, fault = whole(portions)
			missing = cmp.Or(fault, missing)
		}
		return missing, err
	})
	if errors.Is(err, errLost) {
		err = nil
	}
	return portions, cut, err
}

// errLost says that slices are in no item: an item was lost, and the events of its slices are handled again.
var errLost = errors.New("slices are in no item")

// whole returns portions with those that are lost, which have no position.
func whole(portions []portion) (all []portion, missing error) {
	next := portions[0].from / annals.SliceCount * annals.SliceCount
	end := next + annals.SliceCount
	lost := func(to int) {
		if next < to {
			all, missing = append(all, portion{from: next, to: to}), errLost
		}
	}
	for _, p := range portions {
		if p.from < next {
			return nil, corrupt(fmt.Errorf("two items have slice %d", p.from))
		}
		lost(p.from)
		all, next = append(all, p), p.to
	}
	lost(end)
	return all, missing
}

// read reads the items once.
func (o Store) read(ctx context.Context, projection string) (portions []portion, cut *portion, err error) {
	for it, err := range o.Executor.Query(ctx, plan.Query{Table: o.Table, Hash: partitionKey(projection)}) {
		if err != nil {
			return nil, nil, err
		}
		p, err := o.portionOf(it)
		switch {
		case err != nil:
			return nil, nil, err
		case p.to == 0:
			cut = &p
		default:
			portions = append(portions, p)
		}
	}
	return portions, cut, nil
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
