package plan

import "testing"

// A Recent is bounded, and has the keys that were changed last.
func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	const most, all = 1 << 10, 5 << 9
	plus := func(v int, _ bool) int { return v + 1 }
	has := func(r *Recent[int, int], n int) bool { _, ok := r.Get(n); return ok }
	r := Recent[int, int]{Most: most}
	for n := range all {
		if v := r.Change(n, plus); v != 1 || !has(&r, max(0, n-most+1)) {
			t.Fatalf("key %d has the value %d; key %d is known: %v", n, v, n-most+1, has(&r, max(0, n-most+1)))
		}
	}
	if kept := len(r.young) + len(r.old); kept > 2*most || has(&r, 0) {
		t.Errorf("%d keys are kept, the first of them: %v", kept, has(&r, 0))
	}
	if v := r.Change(all-most, plus); v != 2 {
		t.Errorf("a key of the older half has the value %d after the second change", v)
	}
}
