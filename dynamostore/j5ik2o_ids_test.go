package dynamostore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// Ids may be as long as their keys allow: 2,048 bytes for a partition key, 1,024 for a sort key.
func TestJ5ik2oLongIDs(t *testing.T) {
	t.Parallel()
	byID, byNumbers := newJ5ik2oTables(t), newJ5ik2oTables(t)
	long := func(parts ...int) annals.PersistenceID {
		var words []string
		for _, n := range parts {
			words = append(words, strings.Repeat("x", n))
		}
		return annals.PersistenceID(strings.Join(words, "-"))
	}
	const number = len("-0000000000000000001")
	for name, c := range map[string]struct {
		tables j5ik2oTables
		layout j5ik2o.Layout
		limit  int
		legal  []annals.PersistenceID
		wrong  []annals.PersistenceID
	}{
		"by id":     {byID, byID.layout, 2048, []annals.PersistenceID{long(2048), long(1000, 1024-number)}, []annals.PersistenceID{long(2049), long(1000, 1025-number)}},
		"by number": {byNumbers, byNumbers.with(byNumber), 2048 - len("-63"), []annals.PersistenceID{long(2045), long(1000, 1024-number)}, []annals.PersistenceID{long(2046), long(1000, 1025-number)}},
	} {
		store := c.tables.open(c.layout, dynamostore.Options{})
		if got := store.Capabilities().Limits.MaxIDBytes; got != c.limit {
			t.Errorf("%s: the limit is %d, want %d", name, got, c.limit)
		}
		for _, id := range c.legal {
			if _, err := store.Journal().Append(t.Context(), annals.Commit{ID: id, Events: texts("1", "2")}); err != nil {
				t.Errorf("%s: append to an id of %d bytes: %v", name, len(id), err)
			}
			if err := store.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 1, Payload: text("s").Payload}); err != nil {
				t.Errorf("%s: save a snapshot of an id of %d bytes: %v", name, len(id), err)
			}
			if numbers, last, err := recoverAll(store, t, id); err != nil || last != 2 || len(numbers) != 2 {
				t.Errorf("%s: recover an id of %d bytes: %v, last %d, %v", name, len(id), numbers, last, err)
			}
			if _, err := store.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: text("s").Payload}); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "sort key") {
				t.Errorf("%s: put a state of an id of %d bytes, which is its sort key: %v", name, len(id), err)
			}
		}
		for _, id := range c.wrong {
			if _, err := store.Journal().Append(t.Context(), annals.Commit{ID: id, Events: texts("1")}); !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%s: append to an id of %d bytes: %v", name, len(id), err)
			}
			if err := store.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 1, Payload: text("s").Payload}); !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%s: save a snapshot of an id of %d bytes: %v", name, len(id), err)
			}
		}
	}
	store := byID.open(byID.layout, dynamostore.Options{})
	if _, err := store.States().Put(t.Context(), annals.StateWrite{ID: long(1024), Payload: text("s").Payload}); err != nil {
		t.Errorf("put a state of an id of 1,024 bytes: %v", err)
	}
}
