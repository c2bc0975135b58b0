package sharded

import (
	"context"
	"iter"
	"maps"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// rows finds the numbered rows of an id in a journal or snapshot table.
type rows struct {
	table, index string
	resolver     resolver
	id, number   string // attributes
	deleted      string // attribute, "" where the table has none
	dense        bool   // numbers follow each other, so that what an index lags behind can be asked for by key
	byIndex      bool   // also where the keys would do
}

// wanted is which rows to read.
type wanted struct {
	id       annals.PersistenceID
	from, to annals.SeqNr
	backward bool
	limit    int      // rows of the first page of every query, 0 = no limit
	fields   []string // beside the keys; nil = all
	all      bool     // every row of a number that has several
}

// keyed reports whether rows are found by key, strongly consistent.
func (r rows) keyed() bool { return r.resolver.ordered() && !r.byIndex }

// read yields rows in the order of their numbers, those flagged as deleted included.
func (r rows) read(ctx context.Context, x plan.Executor, w wanted) iter.Seq2[plan.Item, error] {
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
			merged := x.Merge(ctx, queries, r.number)
			if !r.dense || w.backward || len(queries) == 1 {
				return merged
			}
			return r.complete(ctx, x, w, merged, false)
		}
		// No key can be computed for the id: the plugin cannot have written rows under this setting, but finds older ones.
	}
	q := plan.Query{Table: r.table, Index: r.index, Hash: string(w.id), From: plan.N(w.from), To: plan.N(w.to), Backward: w.backward, Limit: w.limit, Fields: w.fields}
	if !r.dense || w.backward {
		return x.Query(ctx, q)
	}
	return r.complete(ctx, x, w, x.Query(ctx, q), true)
}

// queries ask every shard. Ids share shards, so rows of others are filtered out.
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
		if r.resolver.partition != r.id {
			queries[i].Filter, queries[i].Names, queries[i].Values = "#id = :id", map[string]string{"#id": r.id}, plan.Item{":id": plan.S(string(w.id))}
		}
	}
	return queries, nil
}

// lag is how many numbers behind the last are asked for by key at a time where the index may lag behind. unseen bounds how
// many are asked for before a row: what was written while the index or the other shards were being read.
const (
	lag    = 16
	unseen = 400
)

// complete yields what was found, one row for a number, with what was not seen: rows that an index does not show yet, and
// rows written into one shard after it was read, while a later row was still found in another. behind asks for rows behind the
// last as well.
func (r rows) complete(ctx context.Context, x plan.Executor, w wanted, found iter.Seq2[plan.Item, error], behind bool) iter.Seq2[plan.Item, error] {
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
			missing, err := r.byKey(ctx, x, w.id, max(next, n-unseen), n-1)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range missing {
				if !yield(it, nil) {
					return
				}
			}
			held, next = it, n+1
		}
		if held != nil && !yield(held, nil) {
			return
		}
		for behind && next <= w.to {
			more, err := r.byKey(ctx, x, w.id, next, min(w.to, next+lag-1))
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

// byKey reads the rows of from to to under their computed keys, in order; none where no key can be computed.
func (r rows) byKey(ctx context.Context, x plan.Executor, id annals.PersistenceID, from, to annals.SeqNr) ([]plan.Item, error) {
	if from > to {
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
	items, err := x.GetAll(ctx, plan.GetAll{Table: r.table, Keys: keys})
	if err != nil {
		return nil, err
	}
	byNumber := map[annals.SeqNr]plan.Item{}
	for _, it := range items {
		if owner, _ := plan.Text(it, r.id); owner == string(id) {
			byNumber[r.numberOf(it)] = it
		}
	}
	found := make([]plan.Item, 0, len(byNumber))
	for n := from; len(byNumber) > 0 && n <= to; n++ {
		if it, ok := byNumber[n]; ok {
			found = append(found, it)
		}
	}
	return found, nil
}

// better chooses between two rows of one number: the one that is not flagged as deleted (the plugin flags a copy when the
// keys have changed), then the one under its computed key.
func (r rows) better(id annals.PersistenceID, a, b plan.Item) plan.Item {
	if gone := plan.Flag(b, r.deleted); gone != plan.Flag(a, r.deleted) {
		if gone {
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
	return maps.EqualFunc(a, b, func(a, b attribute) bool { return valueText(a) == valueText(b) })
}

func (r rows) numberOf(it plan.Item) annals.SeqNr {
	n, _ := plan.Number(it, r.number)
	return annals.SeqNr(n)
}

// newest is the highest number that has a row.
func (r rows) newest(ctx context.Context, x plan.Executor, id annals.PersistenceID) (last annals.SeqNr, err error) {
	for it, err := range r.read(ctx, x, wanted{id: id, from: 1, to: annals.MaxSeqNr, backward: true, limit: 1, fields: []string{}}) {
		if err != nil {
			return 0, err
		}
		last = r.numberOf(it)
		break
	}
	if !r.dense || r.keyed() && len(r.keysOf(id)) == 1 {
		return last, nil
	}
	// Rows that an index does not show yet, or that were written while the shards were being read.
	step := annals.SeqNr(1)
	if !r.keyed() {
		step = lag
	}
	for {
		more, err := r.byKey(ctx, x, id, last+1, last+step)
		if err != nil || len(more) == 0 {
			return last, err
		}
		last, step = r.numberOf(more[len(more)-1]), min(2*step, lag)
	}
}

// keysOf are the partition keys of an id, none where they cannot be computed.
func (r rows) keysOf(id annals.PersistenceID) []string {
	keys, err := r.resolver.partitionKey.Keys(id, r.resolver.sharding)
	if err != nil {
		return nil
	}
	return keys
}

// check compares some rows with the settings and refuses what does not fit.
func (r rows) check(ctx context.Context, x plan.Executor) error {
	items, err := x.Scan(ctx, r.table, checkedRows)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	known := 0
	for _, it := range items {
		id, ok := plan.Text(it, r.id)
		n, ok2 := plan.Number(it, r.number)
		if !ok || !ok2 {
			continue // an update in place of the plugin can leave such a row
		}
		known++
		if r.byIndex {
			continue
		}
		key, err := r.resolver.key(annals.PersistenceID(id), annals.SeqNr(n))
		if err != nil || !sameKey(key, r.resolver.keyOf(it)) {
			return misfit("table %q: the row of %q number %d has the key %s; the settings (resolvers, shard count, separator) make it %s. "+
				"For a table with keys of several settings there is ReadThrough: Index", r.table, id, n, keyText(r.resolver.keyOf(it)), keyText(key))
		}
	}
	if known == 0 {
		return misfit("table %q: no row has the columns %q and %q", r.table, r.id, r.number)
	}
	return nil
}

// checkedRows is how many rows Open looks at.
const checkedRows = 25
