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

// A query of a range reads the partitions that have its slices and no others.
func TestGroupsOfRanges(t *testing.T) {
	t.Parallel()
	for n, groups := range map[int]int{1: 16, 2: 8, 4: 4, 16: 1, 64: 1, annals.SliceCount: 1} {
		for _, r := range annals.SpreadRanges(n) {
			if got := groupsOf(r); len(got) != groups {
				t.Errorf("one of %d ranges far apart: %v has the groups %v, want %d", n, r, got, groups)
			}
		}
	}
	for _, ranges := range [][]annals.SliceRange{{{}}, annals.SliceRanges(4), annals.SliceRanges(300)[:9], annals.SliceRanges(annals.SliceCount)[:9], {{From: 1024 + 60, To: 1024 + 70}}} {
		for _, r := range ranges {
			want := map[int]bool{}
			for i := range 3000 {
				if id := annals.NewPersistenceID("Thread", fmt.Sprint(i)); r.Contains(id.Slice()) {
					want[group(id)] = true
				}
			}
			got := groupsOf(r)
			for _, g := range got {
				delete(want, g)
			}
			if len(want) > 0 {
				t.Errorf("%v has the groups %v, but ids of it are also in %v", r, got, want)
			}
		}
	}
}

// The key of an item in the index is made for each event that is written.
func TestAllocationsOfKeys(t *testing.T) {
	id := annals.NewPersistenceID("Thread", "1")
	if n := testing.AllocsPerRun(100, func() { _ = EventsKey(id) }); n > 1 {
		t.Errorf("the key of an event takes %v allocations", n)
	}
}
