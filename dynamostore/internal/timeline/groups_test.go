package timeline

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
)

// How many groups of the index the ids of a type use that end with numbers in sequence. docs/layouts/commit.md has these numbers.
func TestGroupsOfSequentialIDs(t *testing.T) {
	t.Parallel()
	for ids, want := range map[int]int{100: 16, 1000: 16, 10_000: 16} {
		used := map[int]bool{}
		for n := range ids {
			used[group(annals.NewPersistenceID("Thread", fmt.Sprint(n)))] = true
		}
		if len(used) != want {
			t.Errorf("%d ids use %d groups, documented are %d", ids, len(used), want)
		}
	}
}
