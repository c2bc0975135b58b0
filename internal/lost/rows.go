package lost

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Rows takes the rows 1 to last-1 of an entity's journal away, one at a time. What s tells of id must then be as before, or ErrCorrupt, and
// for an event that is not deleted it must be ErrCorrupt. The newest row is not taken away: it has the last number. remove removes a row,
// and restore puts it back.
func Rows(t testing.TB, s annals.Store, id annals.PersistenceID, deleted, last annals.SeqNr, remove func(n annals.SeqNr), restore func()) {
	t.Helper()
	r, err := ability.Of[ability.Recoverer](s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Read(t.Context(), s.Journal(), r, id)
	if err != nil {
		t.Fatalf("with all rows: %v", err)
	}
	for n := annals.SeqNr(1); n < last; n++ {
		remove(n)
		got, err := Read(t.Context(), s.Journal(), r, id)
		restore()
		switch {
		case err == nil && got != want, err != nil && !errors.Is(err, annals.ErrCorrupt):
			t.Errorf("without row %d: %s, %v, want %s", n, got, err, want)
		case err == nil && n > deleted:
			t.Errorf("without row %d: no error", n)
		}
	}
}
