package sharded

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// rows finds the numbered rows of an id in a journal or snapshot table.
type rows struct {
	table, index string
	resolver     resolver
	id, number   string        // attributes
	deleted      string        // attribute, "" where the table has none
	dense        bool          // numbers are consecutive, so that rows that are not in an index yet can be read by key
	byIndex      bool          // read through the index, even if reads by key are possible
	asked        *asked        // ids that were looked up in the index; nil for a table without an index
	x            plan.Executor // runs the requests; set by plan.Offer.On
}

// shape describes the table.
func (r rows) shape() plan.Table {
	t := plan.Table{Name: r.table, Hash: plan.Key{Name: r.resolver.partition}, Range: plan.Key{Name: r.resolver.sort, Number: r.resolver.sortKey.number}}
	if r.asked != nil {
		t.Indexes = []plan.Index{{Name: r.index, Hash: plan.Key{Name: r.id}, Range: plan.Key{Name: r.number, Number: true}}}
	}
	return t
}

// wanted says which rows to read.
type wanted struct {
	id       annals.PersistenceID
	from, to annals.SeqNr
	backward bool
	limit    int      // rows in the first page of each query; 0 is no limit
	fields   []string // beside the keys; nil is all
	all      bool     // all rows of a number that has several
}

// keyed reports whether rows are found by key, strongly consistent.
func (r rows) keyed() bool { return r.resolver.ordered() && !r.byIndex }

// read yields rows in the order of their numbers, including those flagged as deleted. A row that was not asked for, or is out of order, is
// ErrCorrupt.
func (r rows) read(ctx context.Context, w wanted) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		if w.from > w.to {
			return
		}
		var before annals.SeqNr
		begun := false
		for it, err := range r.find(ctx, w) {
			n, whole := plan.Number(it, r.number)
			at := annals.SeqNr(n)
			switch {
			case err != nil:
			case !whole:
				err = r.corrupt(it, fmt.Errorf("column %q is not a whole number", r.number))
			case at < w.from || at > w.to || begun && at != before && (at < before) != w.backward:
				err = r.corrupt(it, fmt.Errorf("the number %d is not the one of its key", at))
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(it, nil) {
				return
			}
			before, begun = at, true
		}
	}
}

// corrupt returns the error of a row that is not valid.
func (r rows) corrupt(it plan.Item, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q, row %s: %w", r.table, keyText(r.resolver.keyOf(it)), err)}
}

func (r rows) find(ctx context.Context, w wanted) iter.Seq2[plan.Item, error] {
	if w.fields != nil {
		fields := []string{r.resolver.partition, r.resolver.sort, r.id, r.number}
		if r.resolver.sort == r.number {
			fields = []string{r.resolver.partition, r.id, r.number}
		}
		if r.resolver.partition == r.id {
			fields = fields[1:]
		}
		w.fields = append(fields, w.fields...)
	}
	if r.keyed() {
		if queries, err := r.queries(w); err == nil {
			merged := r.x.Merge(ctx, queries, r.number)
			if !r.dense || w.backward || len(queries) == 1 {
				return merged
			}
			return r.complete(ctx, w, merged, false)
		}
		// No key can be computed for the id. The plugin cannot have written rows with this setting, but can have written some with an
		// older one, which the index has.
		if r.asked == nil {
			return func(func(plan.Item, error) bool) {}
		}
	}
	q := plan.Query{Table: r.table, Index: r.index, Hash: string(w.id), From: plan.N(w.from), To: plan.N(w.to), Backward: w.backward, Limit: w.limit, Fields: w.fields}
	if !r.dense || w.backward {
		return r.x.Query(ctx, q)
	}
	return r.complete(ctx, w, r.x.Query(ctx, q), true)
}

// queries returns the queries of all shards of an id. Several ids share a shard, so the rows of others are filtered out.
func (r rows) queries(w wanted) ([]plan.Query, error) {
	shards, err := r.resolver.shards(w.id, w.from, w.to)
	if err != nil {
		return nil, err
	}
	from, err := r.resolver.sortValue(w.id, w.from)
	if err != nil {
		return nil, err
	}
	to, err := r.resolver.sortValue(w.id, w.to)
	if err != nil {
		return nil, err
	}
	queries := make([]plan.Query, len(shards))
	for i, shard := range shards {
		queries[i] = plan.Query{Table: r.table, Hash: shard, From: from, To: to, Backward: w.backward, Limit: w.limit, Fields: w.fields}
		if len(shards) > wholePages {
			queries[i].Most, queries[i].Bytes = max(aheadBytes/len(shards)/rowBytes, 1), aheadBytes/len(shards)
		}
		if r.resolver.partition != r.id {
			queries[i].Filter, queries[i].Names, queries[i].Values = "#id = :id", map[string]string{"#id": r.id}, plan.Item{":id": plan.S(string(w.id))}
		}
	}
	return queries, nil
}

// A read of many shards holds two pages of each in memory. With up to wholePages shards a page has up to 1 MB, the limit of the service.
// With more shards, all pages together have about twice aheadBytes: a first page has as many rows as fit if each has rowBytes, and
// the size of a later page is computed from the page before.
const (
	wholePages = 32
	aheadBytes = 32 << 20
	rowBytes   = 4 << 10
)

// lag is how many numbers after the last row are read by key at a time, where the index may not have them yet. unseen is how many numbers
// are read by key at a time in a gap between two rows.
const (
	lag    = 16
	unseen = 100
)

// complete yields the rows found, one for each number, and the rows missing between them: rows that an index does not have yet, and rows that
// were written to a shard after it was read, while a later row was found in another shard. If behind is set, it also reads rows after
// the last one.
func (r rows) complete(ctx context.Context, w wanted, found iter.Seq2[plan.Item, error], behind bool) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		next := w.from
		var held plan.Item // the best row of number next-1, not yet yielded
		for it, err := range found {
			if err != nil {
				yield(nil, err)
				return
			}
			n := r.numberOf(it)
			if held != nil && n == next-1 && !w.all {
				held = r.better(w.id, held, it)
				continue
			}
			if held != nil && !yield(held, nil) {
				return
			}
			if n > next && !r.between(ctx, w.id, next, n-1, yield) {
				return
			}
			held, next = it, n+1
		}
		if held != nil && !yield(held, nil) {
			return
		}
		for behind && next > 0 && next <= w.to { // next overflows after the greatest number
			more, err := r.byKey(ctx, w.id, next, min(w.to-next, lag-1)+next)
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
			next = r.numberOf(more[len(more)-1]) + 1
		}
	}
}

// between reads the rows from … to, which were not found, by their computed keys and yields them. It returns false when the read is to end.
// There are two reasons for missing rows. Rows that were deleted are the lowest of the gap; rows that were written meanwhile are the
// highest. So the search goes down from to until unseen consecutive numbers have no rows.
func (r rows) between(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr, yield func(plan.Item, error) bool) bool {
	var part []plan.Item
	start, end := to+1, to // of part
	for start > from {
		below := max(from, start-unseen)
		found, err := r.byKey(ctx, id, below, start-1)
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
		if part, err = r.byKey(ctx, id, start, end); err != nil {
			yield(nil, err)
			return false
		}
	}
}

// byKey reads the rows from … to by their computed keys, in order. It returns none when a key cannot be computed.
func (r rows) byKey(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) ([]plan.Item, error) {
	if from <= 0 || from > to {
		return nil, nil
	}
	keys := make([]plan.Item, 0, to-from+1)
	for n := from; ; n++ {
		key, err := r.resolver.key(id, n)
		if err != nil {
			return nil, nil
		}
		if keys = append(keys, key); n == to {
			break
		}
	}
	items, err := r.x.GetAll(ctx, plan.GetAll{Table: r.table, Keys: keys})
	if err != nil {
		return nil, err
	}
	var found []plan.Item
	for _, it := range items {
		if owner, _ := plan.Text(it, r.id); owner != string(id) {
			continue
		}
		n := r.numberOf(it)
		if n < from || n > to || !sameKey(keys[n-from], r.resolver.keyOf(it)) {
			return nil, r.corrupt(it, fmt.Errorf("the number %d is not the one of its key", n))
		}
		found = append(found, it)
	}
	slices.SortFunc(found, func(a, b plan.Item) int { return cmp.Compare(r.numberOf(a), r.numberOf(b)) })
	return found, nil
}

// better returns one of two rows of the same number: the row that is not flagged as deleted (the plugin flags a copy when the keys have
// changed), or else the row at its computed key.
func (r rows) better(id annals.PersistenceID, a, b plan.Item) plan.Item {
	if deleted := plan.Flag(b, r.deleted); deleted != plan.Flag(a, r.deleted) {
		if deleted {
			return a
		}
		return b
	}
	key, err := r.resolver.key(id, r.numberOf(a))
	if err == nil && sameKey(r.resolver.keyOf(b), key) {
		return b
	}
	return a
}

func sameKey(a, b plan.Item) bool {
	return maps.EqualFunc(a, b, func(a, b attribute) bool { return plan.KeyText(a) == plan.KeyText(b) })
}

func (r rows) numberOf(it plan.Item) annals.SeqNr {
	n, _ := plan.Number(it, r.number)
	return annals.SeqNr(n)
}

// newest returns the highest number that has a row; 0 when there is no row.
func (r rows) newest(ctx context.Context, id annals.PersistenceID) (last annals.SeqNr, err error) {
	for it, err := range r.read(ctx, wanted{id: id, from: 1, to: annals.MaxSeqNr, backward: true, limit: 1, fields: []string{}}) {
		if err != nil {
			return 0, err
		}
		last = r.numberOf(it)
		break
	}
	if !r.dense {
		return last, nil
	}
	if r.keyed() {
		if shards, err := r.resolver.partitionKey.Keys(id, r.resolver.sharding); err == nil && len(shards) == 1 {
			return last, nil
		}
	}
	// Look for rows that the index does not have yet, or that were written while the shards were read.
	step := annals.SeqNr(1)
	if !r.keyed() {
		step = lag
	}
	for last < annals.MaxSeqNr {
		more, err := r.byKey(ctx, id, last+1, last+min(step, annals.MaxSeqNr-last))
		if err != nil || len(more) == 0 {
			return last, err
		}
		last, step = r.numberOf(more[len(more)-1]), min(2*step, lag)
	}
	return last, nil
}
