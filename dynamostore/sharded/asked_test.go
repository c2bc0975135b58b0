package sharded

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
)

// The set of ids is bounded, and has the newest ones.
func TestAskedIsBounded(t *testing.T) {
	t.Parallel()
	a := newAsked()
	id := func(n int) annals.PersistenceID { return annals.PersistenceID(fmt.Sprint(n)) }
	const all = 5 * askedMost / 2
	for n := range all {
		if a.add(id(n)); !a.has(id(max(0, n-askedMost+1))) {
			t.Fatalf("id %d of %d is forgotten", n-askedMost+1, n)
		}
	}
	if kept := len(a.new) + len(a.older); kept > 2*askedMost || a.has(id(0)) {
		t.Errorf("%d ids are kept, the first of them: %v", kept, a.has(id(0)))
	}
}
