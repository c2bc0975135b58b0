package sharded

import (
	"context"
	"hash/maphash"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// fits looks id up in the index and returns an error if a row has a key that does not fit the settings: reads by key do not find such a row.
// It is called before an id is considered to have no rows, or its first rows to be deleted. Each id is looked up once in a process.
func (r rows) fits(ctx context.Context, id annals.PersistenceID) error {
	if !r.keyed() || r.asked == nil || r.asked.has(id) {
		return nil
	}
	if _, err := r.resolver.key(id, 1); err != nil {
		return nil // such an id is read through the index
	}
	it, ok, err := r.indexed(ctx, wanted{id: id, to: annals.MaxSeqNr, limit: 1})
	if err != nil {
		return err
	}
	if ok {
		if err := r.misplaced(it); err != nil {
			return err
		}
	}
	r.asked.add(id)
	return nil
}

// indexed returns the first row of w in the index.
func (r rows) indexed(ctx context.Context, w wanted) (plan.Item, bool, error) {
	r.byIndex, r.dense = true, false
	w.fields = []string{}
	for it, err := range r.read(ctx, w) {
		return it, err == nil, err
	}
	return nil, false, nil
}

// misplaced returns ErrInvalid for a row whose key does not fit the settings.
func (r rows) misplaced(it plan.Item) error {
	id, _ := plan.Text(it, r.id)
	n := r.numberOf(it)
	key, err := r.resolver.key(annals.PersistenceID(id), n)
	if err == nil && sameKey(key, r.resolver.keyOf(it)) {
		return nil
	}
	return misfit("table %q: the row of %s number %d has the key %s; the settings (resolvers, shard count, separator) make it %s. "+
		"For a table with keys of several settings there is ReadThrough: Index", r.table, annals.Quote(id), n, keyText(r.resolver.keyOf(it)), keyText(key))
}

// asked is a set of ids, in bounded memory. It has their hashes.
type asked struct {
	seed   maphash.Seed
	hashes plan.Recent[uint64, struct{}]
}

func (a *asked) has(id annals.PersistenceID) bool {
	_, ok := a.hashes.Get(maphash.String(a.seed, string(id)))
	return ok
}

func (a *asked) add(id annals.PersistenceID) {
	a.hashes.Change(maphash.String(a.seed, string(id)), func(struct{}, bool) (none struct{}) { return none })
}
