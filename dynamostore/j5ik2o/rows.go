package j5ik2o

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// rows finds the numbered rows of an id in a journal or snapshot table.
type rows struct {
	numbered.Table
	resolver resolver
	dense    bool                     // numbers are consecutive, so that rows that are not in an index yet can be read by key
	byIndex  bool                     // read through the index, even if reads by key are possible
	first    bool                     // row 1 exists as long as there are rows
	skipped  func(row plan.Item) bool // a skip wrote it
	x        plan.Executor            // runs the requests; set by plan.Offer.On
}

// advice ends the error about a row whose key does not fit the settings.
const advice = ". For a table with keys of several settings there is ByIndex"

// newRows returns the rows of a table whose index has that name; ids is nil for a table without an index.
func newRows(table, index string, r resolver, id, number string, ids *numbered.IDs) rows {
	return rows{Table: numbered.Table{Name: table, Index: index, Hash: r.partition, Range: r.sort, ID: id, Number: number, Key: r.key, Advice: advice, IDs: ids}, resolver: r}
}

// shape describes the table.
func (r rows) shape() plan.Table {
	t := plan.Table{Name: r.Name, Hash: plan.Key{Name: r.Hash}, Range: plan.Key{Name: r.Range, Number: r.resolver.sortKey.number}}
	if r.IDs != nil {
		t.Indexes = []plan.Index{{Name: r.Index, Hash: plan.Key{Name: r.ID}, Range: plan.Key{Name: r.Number, Number: true}}}
	}
	return t
}

// keyed reports whether rows are found by key, strongly consistent.
func (r rows) keyed() bool { return r.resolver.ordered() && !r.byIndex }

// read yields rows in the order of their numbers, including those flagged as deleted.
func (r rows) read(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	return r.Ordered(p, r.find(ctx, p))
}

func (r rows) find(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	if p.From > p.To {
		return none
	}
	if r.keyed() {
		if queries, err := r.queries(p); err == nil {
			merged := r.x.Merge(ctx, queries, r.Number)
			if !r.dense || p.Backward || len(queries) == 1 {
				return merged
			}
			return r.unlessUnwritten(ctx, p, r.Complete(ctx, r.x, p, merged, false))
		}
		// No key can be computed for the id. The plugin cannot have written rows with this setting, but can have written some with an
		// older one, which the index has.
		if r.IDs == nil {
			return none
		}
	}
	found := r.x.Query(ctx, r.Query(p))
	if !r.dense || p.Backward {
		return found
	}
	return r.Complete(ctx, r.x, p, found, true)
}

// scattered reports whether the rows of id are in several partitions and in an index. Then the index is asked before all partitions are.
func (r rows) scattered(id annals.PersistenceID) bool {
	if !r.keyed() || r.IDs == nil {
		return false
	}
	shards, err := r.resolver.partitionKey.Keys(id, r.resolver.sharding)
	return err == nil && len(shards) > 1
}

// unwritten reports whether id is found to have no rows without a read of all partitions.
func (r rows) unwritten(ctx context.Context, id annals.PersistenceID) (bool, error) {
	if !r.first || !r.scattered(id) {
		return false, nil
	}
	return r.Unwritten(ctx, r.x, id)
}

// unlessUnwritten yields the rows found for p; none, without a read of all partitions, when p begins with row 1 and there is no row.
func (r rows) unlessUnwritten(ctx context.Context, p numbered.Part, found iter.Seq2[plan.Item, error]) iter.Seq2[plan.Item, error] {
	if p.From > 1 {
		return found
	}
	return func(yield func(plan.Item, error) bool) {
		if unwritten, err := r.unwritten(ctx, p.ID); err != nil {
			yield(nil, err)
		} else if !unwritten {
			found(yield)
		}
	}
}

func none(func(plan.Item, error) bool) {}

// queries returns the queries of all shards of an id. Several ids share a shard, so the rows of others are filtered out.
func (r rows) queries(p numbered.Part) ([]plan.Query, error) {
	shards, err := r.resolver.shards(p.ID, p.From, p.To)
	if err != nil {
		return nil, err
	}
	from, err := r.resolver.sortValue(p.ID, p.From)
	if err != nil {
		return nil, err
	}
	to, err := r.resolver.sortValue(p.ID, p.To)
	if err != nil {
		return nil, err
	}
	fields := r.Fields(p.Fields)
	queries := make([]plan.Query, len(shards))
	for i, shard := range shards {
		queries[i] = plan.Query{Table: r.Name, Hash: shard, From: from, To: to, Backward: p.Backward, Limit: p.Limit, Fields: fields}
		if r.Hash != r.ID {
			queries[i].Filter, queries[i].Names, queries[i].Values = "#id = :id", map[string]string{"#id": r.ID}, plan.Item{":id": plan.S(string(p.ID))}
		}
	}
	return queries, nil
}

// fits is Fits where rows are read by key: a read through the index finds them at any key.
func (r rows) fits(ctx context.Context, id annals.PersistenceID) error {
	if !r.keyed() {
		return nil
	}
	return r.Fits(ctx, r.x, id)
}

// deletedTo returns the number up to which the events after n are deleted, or missing; n when event n+1 is not. Each event that an index shows as
// not deleted is looked up by the key of its row, strongly consistent.
func (r rows) deletedTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (annals.SeqNr, error) {
	if n == annals.MaxSeqNr {
		return n, nil
	}
	last, stands := n, annals.SeqNr(0) // the last row, and the first event that is not deleted
	all := r.read(ctx, numbered.Part{ID: id, From: n + 1, To: annals.MaxSeqNr, Limit: together, Fields: []string{r.Deleted}})
	shown := plan.Picked(all, func(it plan.Item) (plan.Item, bool, error) {
		last = r.NumberOf(it)
		return r.KeyOf(it), !plan.Flag(it, r.Deleted), nil
	})
	err := plan.Batches(shown, func(keys []plan.Item) error {
		found, err := r.x.GetAll(ctx, r.Name, keys)
		for _, it := range found {
			if n := r.NumberOf(it); !plan.Flag(it, r.Deleted) && (stands == 0 || n < stands) {
				stands, err = n, errStands
			}
		}
		return err
	})
	if stands > 0 {
		return stands - 1, nil
	}
	return last, err
}

// errStands ends the reading for deletedTo.
var errStands = errors.New("an event is not deleted")

// together is how many rows are read by key in one request.
const together = 100

// newest returns the highest number that has a row, and the highest that a read without computed keys found; 0 when there is no row. They differ
// where the index lags behind. Rows in several partitions are read again when a skip may have written its two rows meanwhile: when the first one was
// found, by the read or by its key, and the second one not yet.
func (r rows) newest(ctx context.Context, id annals.PersistenceID) (last, found annals.SeqNr, err error) {
	if unwritten, err := r.unwritten(ctx, id); unwritten || err != nil {
		return 0, 0, err
	}
	step, shards := annals.SeqNr(numbered.Lag), []string(nil)
	if r.keyed() {
		step = 1
		shards, _ = r.resolver.partitionKey.Keys(id, r.resolver.sharding)
	}
	for before := annals.SeqNr(-1); ; before = last {
		it, _, err := plan.First(r.read(ctx, numbered.Part{ID: id, From: 1, To: annals.MaxSeqNr, Backward: true, Limit: 1, Fields: []string{r.Deleted}}))
		if err != nil {
			return 0, 0, err
		}
		last, found = r.NumberOf(it), r.NumberOf(it)
		if len(shards) != 1 {
			last, err = r.Newest(ctx, r.x, id, found, step)
		}
		if len(shards) < 2 || last == before || err != nil { // a read that began after row last was found has the other row, too
			return last, found, err
		}
		if last == found {
			if skipped, err := r.skippedTo(ctx, id, it); !skipped || err != nil {
				return last, found, err
			}
		}
	}
}

// skippedTo reports whether a row is one that a skip wrote. It has the attribute Deleted.
func (r rows) skippedTo(ctx context.Context, id annals.PersistenceID, it plan.Item) (bool, error) {
	if !plan.Flag(it, r.Deleted) {
		return false, nil
	}
	n := r.NumberOf(it)
	whole, err := r.ByKey(ctx, r.x, id, n, n)
	return slices.ContainsFunc(whole, r.skipped), err
}
