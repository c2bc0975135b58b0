package numbered

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// Fits looks id up in the index and returns ErrInvalid if a row has a key that does not fit the settings: reads by key do not find such a row.
// It is called before an id is considered to have no rows, or its first rows to be deleted. Each id is looked up once in a process.
func (t Table) Fits(ctx context.Context, x plan.Executor, id annals.PersistenceID) error {
	if t.IDs == nil || t.IDs.has(id) {
		return nil
	}
	_, err := t.Has(ctx, x, id)
	return err
}

// others is how many rows of other ids with the same value in the index Has passes over.
const others = 100

// Has reports whether the index has rows of id, and returns ErrInvalid as Fits does.
func (t Table) Has(ctx context.Context, x plan.Executor, id annals.PersistenceID) (found bool, err error) {
	if _, err := t.Key(id, 1); err != nil {
		return false, nil // such an id is read through the index
	}
	p, passed := Part{ID: id, To: annals.MaxSeqNr, Limit: 1, Fields: []string{}}, 0
	for row, err := range t.Ordered(p, x.Query(ctx, t.Query(p))) {
		if err == nil {
			err = t.Misplaced(row)
		}
		if err != nil {
			return false, err
		}
		if found = t.OwnerOf(row) == id; found || passed == others {
			break
		}
		passed++
	}
	if t.IDs != nil {
		t.IDs.add(id)
	}
	return found, nil
}

// Unwritten reports whether id has no rows: row 1 does not exist, strongly consistent, and the index has no other. It is for tables in which
// row 1 exists as long as there are rows; the index has those of ids that lost it in some other way.
func (t Table) Unwritten(ctx context.Context, x plan.Executor, id annals.PersistenceID) (bool, error) {
	first, err := t.ByKey(ctx, x, id, 1, 1)
	if err != nil || len(first) > 0 {
		return false, err
	}
	_, ok, err := t.First(ctx, x, Part{ID: id, To: annals.MaxSeqNr})
	if ok || err != nil {
		return false, err
	}
	t.IDs.add(id)
	return true, nil
}

// Misplaced returns ErrInvalid for a row whose key does not fit the settings.
func (t Table) Misplaced(row plan.Item) error {
	id := t.OwnerOf(row)
	if t.AtKey(id, row) {
		return nil
	}
	key, _ := t.Key(id, t.NumberOf(row))
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("table %q: the row of %s number %d has the key %s; the settings (resolvers, shard count, separator) make it %s%s",
		t.Name, quote.Text(string(id)), t.NumberOf(row), plan.QuoteKey(t.KeyOf(row)), plan.QuoteKey(key), t.Advice)}
}

// IDs is a set of ids, in bounded memory. It has their hashes.
type IDs struct {
	seed   maphash.Seed
	hashes plan.Recent[uint64, struct{}]
}

// NewIDs returns an empty set.
func NewIDs() *IDs {
	return &IDs{maphash.MakeSeed(), plan.Recent[uint64, struct{}]{Most: 1 << 16}}
}

func (s *IDs) has(id annals.PersistenceID) bool {
	_, ok := s.hashes.Get(maphash.String(s.seed, string(id)))
	return ok
}

func (s *IDs) add(id annals.PersistenceID) {
	s.hashes.Change(maphash.String(s.seed, string(id)), func(struct{}, bool) (none struct{}) { return none })
}
