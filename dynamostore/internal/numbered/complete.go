package numbered

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Lag is how many numbers after the last row are read by key at a time, where the index may not have them yet. unseen is how many numbers
// are read by key at a time in a gap between two rows.
const (
	Lag    = 16
	unseen = 100
)

// Complete yields the rows found, one for each number, and the rows missing between them: rows that an index does not have yet, and rows that
// were written to a shard after it was read, while a later row was found in another shard. If behind is set, it also reads rows after
// the last one.
func (t Table) Complete(ctx context.Context, x plan.Executor, p Part, found iter.Seq2[plan.Item, error], behind bool) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		next := p.From
		var held plan.Item // the best row of number next-1, not yet yielded
		for it, err := range found {
			if err != nil {
				yield(nil, err)
				return
			}
			n := t.NumberOf(it)
			if held != nil && n == next-1 && !p.All {
				held = t.better(p.ID, held, it)
				continue
			}
			if held != nil && !yield(held, nil) {
				return
			}
			if n > next && !t.missing(ctx, x, p.ID, next, n-1, yield) {
				return
			}
			held, next = it, n+1
		}
		if held != nil && !yield(held, nil) {
			return
		}
		for behind && next > 0 && next <= p.To { // next overflows after the greatest number
			more, err := t.ByKey(ctx, x, p.ID, next, min(p.To-next, Lag-1)+next)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range more {
				if !yield(it, nil) {
					return
				}
			}
			if len(more) == 0 {
				return
			}
			next = t.NumberOf(more[len(more)-1]) + 1
		}
	}
}

// missing reads the rows from … to, which were not found, by their computed keys and yields them. It returns false when the read is to end.
// There are two reasons for missing rows. Rows that were deleted are the lowest of the gap; rows that were written meanwhile are the
// highest. So the search goes down from to until unseen consecutive numbers have no rows.
func (t Table) missing(ctx context.Context, x plan.Executor, id annals.PersistenceID, from, to annals.SeqNr, yield func(plan.Item, error) bool) bool {
	var part []plan.Item
	start, end := to+1, to // of part
	for start > from {
		below := max(from, start-unseen)
		found, err := t.ByKey(ctx, x, id, below, start-1)
		if err != nil {
			yield(nil, err)
			return false
		}
		if len(found) == 0 {
			break
		}
		part, start, end = found, below, start-1
	}
	for {
		for _, it := range part {
			if !yield(it, nil) {
				return false
			}
		}
		if end == to {
			return true
		}
		var err error // the rows above are read a second time, so that only one part is in memory
		start, end = end+1, min(to, end+unseen)
		if part, err = t.ByKey(ctx, x, id, start, end); err != nil {
			yield(nil, err)
			return false
		}
	}
}

// ByKey reads the rows from … to by their computed keys, in order. It returns none when a key cannot be computed.
func (t Table) ByKey(ctx context.Context, x plan.Executor, id annals.PersistenceID, from, to annals.SeqNr) ([]plan.Item, error) {
	return t.byKey(id, from, to, func(keys []plan.Item) ([]plan.Item, error) { return x.GetAll(ctx, t.Name, keys) })
}

// Together is ByKey for up to 100 rows, as they are at one moment, at twice the units.
func (t Table) Together(ctx context.Context, x plan.Executor, id annals.PersistenceID, from, to annals.SeqNr) ([]plan.Item, error) {
	return t.byKey(id, from, to, func(keys []plan.Item) ([]plan.Item, error) { return x.GetTogether(ctx, plan.Gets(t.Name, keys)) })
}

// byKey is ByKey with the items that read returns for keys.
func (t Table) byKey(id annals.PersistenceID, from, to annals.SeqNr, read func(keys []plan.Item) ([]plan.Item, error)) ([]plan.Item, error) {
	keys, err := t.Keys(id, from, to)
	if err != nil || len(keys) == 0 {
		return nil, nil //nolint:nilerr // a key cannot be computed, or there are none
	}
	items, err := read(keys)
	if err != nil {
		return nil, err
	}
	return t.At(id, from, keys, items)
}

// Keys are the computed keys of the rows from … to of id.
func (t Table) Keys(id annals.PersistenceID, from, to annals.SeqNr) (keys []plan.Item, err error) {
	if from <= 0 || from > to {
		return nil, nil
	}
	keys = make([]plan.Item, 0, to-from+1)
	for n := from; ; n++ {
		key, err := t.Key(id, n)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, key); n == to {
			return keys, nil // n may be the greatest number
		}
	}
}

// At returns the rows of id, in order, among the items that were read at keys, which are those of Keys from a number on. The items are in any order,
// and nil where there is none.
func (t Table) At(id annals.PersistenceID, from annals.SeqNr, keys, items []plan.Item) (found []plan.Item, err error) {
	for _, it := range items {
		if t.OwnerOf(it) != id {
			continue
		}
		n := t.NumberOf(it)
		if n < from || n-from >= annals.SeqNr(len(keys)) || !plan.SameKey(keys[n-from], t.KeyOf(it)) {
			return nil, t.notOfKey(it)
		}
		found = append(found, it)
	}
	slices.SortFunc(found, func(a, b plan.Item) int { return cmp.Compare(t.NumberOf(a), t.NumberOf(b)) })
	return found, nil
}

// better returns one of two rows of the same number, which a table has when its keys were computed in another way before: the row that is not
// flagged as deleted, or else the row at its computed key.
func (t Table) better(id annals.PersistenceID, a, b plan.Item) plan.Item {
	if deleted := plan.Flag(b, t.Deleted); deleted != plan.Flag(a, t.Deleted) {
		if deleted {
			return a
		}
		return b
	}
	if t.AtKey(id, b) {
		return b
	}
	return a
}

// Newest returns the highest number that has a row, when a read of the rows found last: it looks for rows behind it by key, first for step
// numbers and then for more.
func (t Table) Newest(ctx context.Context, x plan.Executor, id annals.PersistenceID, last, step annals.SeqNr) (annals.SeqNr, error) {
	for last < annals.MaxSeqNr {
		more, err := t.ByKey(ctx, x, id, last+1, last+min(step, annals.MaxSeqNr-last))
		if err != nil || len(more) == 0 {
			return last, err
		}
		last, step = t.NumberOf(more[len(more)-1]), min(2*step, Lag)
	}
	return last, nil
}
