package lost

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Rows takes rows away, one at a time. What s tells of id must then be as before, or ErrCorrupt, except for the rows in unnoticed, whose values say
// why. For these it must be neither. remove removes a row, and restore puts it back.
func Rows(t testing.TB, s annals.Store, id annals.PersistenceID, rows []string, remove func(row string), restore func(), unnoticed map[string]string) {
	t.Helper()
	r, err := ability.Of[ability.Recoverer](s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Read(t.Context(), s.Journal(), s.States().Get, r, id)
	if err != nil {
		t.Fatalf("%s with all rows: %v", id, err)
	}
	found := 0
	for _, row := range rows {
		remove(row)
		got, err := Read(t.Context(), s.Journal(), s.States().Get, r, id)
		restore()
		why := unnoticed[row]
		if why != "" {
			found++
		}
		if wrong := err == nil && got != want || err != nil && !errors.Is(err, annals.ErrCorrupt); wrong != (why != "") {
			t.Errorf("%s without row %s: %s, %v, want %s; it may go unnoticed: %q", id, row, got, err, want, why)
		}
	}
	if found != len(unnoticed) {
		t.Errorf("%s has the rows %q, and not all of %q", id, rows, unnoticed)
	}
}
