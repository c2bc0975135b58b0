package sharded

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// fits asks the index whether id has rows under keys that the settings do not make: reads by key do not see them. It is called
// before an id is taken for one without rows, or its first rows for deleted, and asks once for an id and process.
func (r rows) fits(ctx context.Context, x plan.Executor, id annals.PersistenceID) error {
	if !r.keyed() || r.asked == nil || r.asked.has(id) {
		return nil
	}
	if _, err := r.resolver.key(id, 1); err != nil {
		return nil // then reads go through the index
	}
	it, ok, err := r.indexed(ctx, x, wanted{id: id, to: annals.MaxSeqNr, limit: 1})
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

// indexed is the first row that the index shows.
func (r rows) indexed(ctx context.Context, x plan.Executor, w wanted) (plan.Item, bool, error) {
	r.byIndex, r.dense = true, false
	w.fields = []string{}
	for it, err := range r.read(ctx, x, w) {
		return it, err == nil, err
	}
	return nil, false, nil
}

// misplaced refuses a row whose key is not the one that the settings make; nil for a row that has its place.
func (r rows) misplaced(it plan.Item) error {
	id, _ := plan.Text(it, r.id)
	n := r.numberOf(it)
	key, err := r.resolver.key(annals.PersistenceID(id), n)
	if err == nil && sameKey(key, r.resolver.keyOf(it)) {
		return nil
	}
	return misfit("table %q: the row of %q number %d has the key %s; the settings (resolvers, shard count, separator) make it %s. "+
		"For a table with keys of several settings there is ReadThrough: Index", r.table, id, n, keyText(r.resolver.keyOf(it)), keyText(key))
}

// asked is a set of ids in bounded memory: what was added before the last askedMost ids may be forgotten. It keeps hashes.
type asked struct {
	mu         sync.Mutex
	seed       maphash.Seed
	new, older map[uint64]struct{}
}

const askedMost = 1 << 16

func newAsked() *asked { return &asked{seed: maphash.MakeSeed(), new: map[uint64]struct{}{}} }

func (a *asked) has(id annals.PersistenceID) bool {
	h := maphash.String(a.seed, string(id))
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.new[h]
	if !ok {
		_, ok = a.older[h]
	}
	return ok
}

func (a *asked) add(id annals.PersistenceID) {
	h := maphash.String(a.seed, string(id))
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.new) >= askedMost {
		a.new, a.older = map[uint64]struct{}{}, a.new
	}
	a.new[h] = struct{}{}
}
