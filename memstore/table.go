package memstore

import (
	"iter"
	"maps"
)

// table is a map. That of a transaction keeps apart what the transaction has changed, so that beginning one and undoing it copies no rows. Its
// rows are replaced and never changed in place.
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

// layer returns a table with the rows of t. Its changes are kept apart, and leave t alone.
func (t *table[K, V]) layer() table[K, V] {
	changed := maps.Clone(t.changed)
	if changed == nil {
		changed = map[K]change[V]{}
	}
	return table[K, V]{t.rows, changed}
}

// merge makes the changes of a layer those of t.
func (t *table[K, V]) merge(layer table[K, V]) {
	for key, c := range layer.changed {
		if c.deleted {
			t.delete(key)
		} else {
			t.set(key, c.row)
		}
	}
}
