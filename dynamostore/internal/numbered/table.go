// Package numbered reads rows that have an id and a number, the numbers of an id being consecutive. The table's key is computed from both,
// and an index has the rows by id and number. The index lags behind, so rows that it does not have yet are read at their keys.
package numbered

import (
	"context"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Table is a table of numbered rows.
type Table struct {
	Name, Index string
	Hash, Range string // attributes of the key
	ID, Number  string // attributes of the index's key
	Deleted     string // attribute with which rows are flagged as deleted; "" where there is none
	// Hashed returns the value of the attribute ID for an id, and Owner the id of a row. nil: that attribute has the id itself.
	Hashed func(id annals.PersistenceID) string
	Owner  func(row plan.Item) annals.PersistenceID
	// Key computes the key of row n. An error says that the rows of id have no computed keys: they are read through the index.
	Key func(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error)
	// Advice ends the error about a row whose key is not the computed one.
	Advice string
	IDs    *IDs // that Fits has looked up in the index; nil for a table without an index
}

// Part says which rows of an id to read.
type Part struct {
	ID       annals.PersistenceID
	From, To annals.SeqNr
	Backward bool
	Limit    int      // rows in the first page of each query; 0 is no limit
	Fields   []string // beside the keys; nil is all
	All      bool     // all rows of a number that has several
}

// NumberOf returns the number of a row; 0 when it has none.
func (t Table) NumberOf(row plan.Item) annals.SeqNr {
	n, _ := plan.Number(row, t.Number)
	return annals.SeqNr(n)
}

// OwnerOf returns the id of a row.
func (t Table) OwnerOf(row plan.Item) annals.PersistenceID {
	if t.Owner != nil {
		return t.Owner(row)
	}
	id, _ := plan.Text(row, t.ID)
	return annals.PersistenceID(id)
}

// KeyOf returns the key of a row.
func (t Table) KeyOf(row plan.Item) plan.Item {
	return plan.Item{t.Hash: row[t.Hash], t.Range: row[t.Range]}
}

// AtKey reports whether a row of id is at its computed key.
func (t Table) AtKey(id annals.PersistenceID, row plan.Item) bool {
	key, err := t.Key(id, t.NumberOf(row))
	return err == nil && plan.SameKey(key, t.KeyOf(row))
}

// Fields returns the attributes to ask for so that rows have their keys and fields; nil, which is all, when fields is nil.
func (t Table) Fields(fields []string) []string {
	if fields == nil {
		return nil
	}
	keys := []string{t.Hash, t.Range, t.ID, t.Number}
	if t.Range == t.Number {
		keys = []string{t.Hash, t.ID, t.Number}
	}
	if t.Hash == t.ID {
		keys = keys[1:]
	}
	return append(keys, fields...)
}

// Query returns the query of the index for p.
func (t Table) Query(p Part) plan.Query {
	hash := string(p.ID)
	if t.Hashed != nil {
		hash = t.Hashed(p.ID)
	}
	return plan.Query{Table: t.Name, Index: t.Index, Hash: hash, From: plan.N(p.From), To: plan.N(p.To), Backward: p.Backward, Limit: p.Limit, Fields: t.Fields(p.Fields)}
}

// Ordered yields the rows found for p. A row that was not asked for, or is out of order, is ErrCorrupt.
func (t Table) Ordered(p Part, found iter.Seq2[plan.Item, error]) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		if p.From > p.To {
			return
		}
		var before annals.SeqNr
		begun := false
		for row, err := range found {
			n, whole := plan.Number(row, t.Number)
			at := annals.SeqNr(n)
			switch {
			case err != nil:
			case !whole:
				err = t.Corrupt(row, fmt.Errorf("column %q is not a whole number", t.Number))
			case at < p.From || at > p.To || begun && at != before && (at < before) != p.Backward:
				err = t.notOfKey(row)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
			before, begun = at, true
		}
	}
}

// First returns the first row of p in the index, with its keys alone.
func (t Table) First(ctx context.Context, x plan.Executor, p Part) (plan.Item, bool, error) {
	p.Limit, p.Fields = 1, []string{}
	return plan.First(t.Ordered(p, x.Query(ctx, t.Query(p))))
}

// Corrupt returns the error of a row that is not valid.
func (t Table) Corrupt(row plan.Item, err error) error {
	return plan.Corrupt(t.Name, t.KeyOf(row), err)
}

func (t Table) notOfKey(row plan.Item) error {
	return t.Corrupt(row, &ability.Damage{Code: ability.Key, From: t.NumberOf(row), To: t.NumberOf(row), Err: fmt.Errorf("the number %d is not the one of its key", t.NumberOf(row))})
}
