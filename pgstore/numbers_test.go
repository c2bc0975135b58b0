package pgstore_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/pgstore"
)

// Numbers of 32 bits and more are like others, also where the store looks up why a commit was not written.
func TestGreatNumbers(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	id, two := annals.PersistenceID("T|great"), []annals.NewEvent{{Payload: text("x")}, {Payload: text("y")}}
	for _, n := range []annals.SeqNr{1<<31 - 2, 1 << 40, annals.MaxSeqNr - 2} {
		last, err := s.Journal().LastSeqNr(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := able[ability.Skipper](s).SkipTo(t.Context(), id, last, n); err != nil {
			t.Fatal(err)
		}
		c := annals.Commit{ID: id, After: n, Events: two, WriteID: annals.NewWriteID()}
		for _, repeated := range []bool{false, true} {
			if r, err := s.Journal().Append(t.Context(), c); r.SeqNr != n+2 || r.Repeated != repeated || err != nil {
				t.Errorf("after %d: %+v, %v", n, r, err)
			}
		}
		c.WriteID = annals.NewWriteID()
		if _, err := s.Journal().Append(t.Context(), c); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("after %d, again: %v", n, err)
		}
		if got := len(all(t, s, id)); got != 2 {
			t.Errorf("after %d: %d events", n, got)
		}
		if err := s.Journal().DeleteTo(t.Context(), id, n+2); err != nil {
			t.Error(err)
		}
	}
}
