package memstore

import (
	"iter"
	"maps"
)

// table is a map. In a transaction it keeps apart what the transaction has changed, so that beginning one and undoing it copies no rows. Its rows
// are replaced and never changed in place.
type table[K comparable, V any] struct {
	rows    map[K]V
	changed map[K]change[V] // by the transaction; nil outside
}

// change is the new row of a key.
type change[V any] struct {
	row     V
	deleted bool
}

func newTable[K comparable, V any]() table[K, V] { return table[K, V]{rows: map[K]V{}} }

func (t *table[K, V]) find(key K) (row V, ok bool) {
	if c, changed := t.changed[key]; changed {
		return c.row, !c.deleted
	}
	row, ok = t.rows[key]
	return row, ok
}

func (t *table[K, V]) get(key K) V {
	row, _ := t.find(key)
	return row
}

func (t *table[K, V]) set(key K, row V) {
	if t.changed != nil {
		t.changed[key] = change[V]{row: row}
	} else {
		t.rows[key] = row
	}
}

func (t *table[K, V]) delete(key K) {
	if t.changed != nil {
		t.changed[key] = change[V]{deleted: true}
	} else {
		delete(t.rows, key)
	}
}

// all yields the rows in any order.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for key, row := range t.rows {
			if _, changed := t.changed[key]; !changed && !yield(key, row) {
				return
			}
		}
		for key, c := range t.changed {
			if !c.deleted && !yield(key, c.row) {
				return
			}
		}
	}
}

// begin begins a transaction, or a part of one that can be undone alone. end keeps what it has changed or makes t as it was.
func (t *table[K, V]) begin() (end func(keep bool)) {
	before := t.changed
	t.changed = map[K]change[V]{}
	maps.Copy(t.changed, before)
	return func(keep bool) {
		switch changed := t.changed; {
		case !keep:
			t.changed = before
		case before == nil:
			t.changed = nil
			for key, c := range changed {
				if c.deleted {
					t.delete(key)
				} else {
					t.set(key, c.row)
				}
			}
		}
	}
}
