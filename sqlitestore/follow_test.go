package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/query"
	"github.com/annals-go/annals/sqlitestore"
)

// A live query yields the events of two stores on one file, each once and in the order of their offsets, while both write.
func TestFollowTwoWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, other := openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})
	const commits = 150
	for _, w := range []struct {
		store *sqlitestore.Store
		ids   []annals.PersistenceID
	}{{s, []annals.PersistenceID{"T|1", "T|2"}}, {other, []annals.PersistenceID{"T|3", "U|1"}}} {
		go func() {
			for i := range annals.SeqNr(commits) {
				for _, id := range w.ids {
					if _, err := w.store.Journal().Append(t.Context(), commit(id, 2*i, 2)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
	}
	var last annals.Offset
	seen := map[annals.PersistenceID]annals.SeqNr{}
	for e, err := range query.Events(t.Context(), s, annals.Filter{Type: "T", Limit: 3 * 2 * commits}, query.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.SeqNr != seen[e.ID]+1 || e.Offset().Compare(last) <= 0 {
			t.Fatalf("%v after %v and number %d", e.Offset(), last, seen[e.ID])
		}
		seen[e.ID], last = e.SeqNr, e.Offset()
	}
	if len(seen) != 3 {
		t.Errorf("events of %v", seen)
	}
}
