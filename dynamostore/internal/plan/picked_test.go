package plan_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The first error of the values, or of the function, comes last.
func TestPicked(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	all := func(yield func(int, error) bool) {
		_ = yield(1, nil) && yield(2, nil) && yield(3, nil) && yield(0, failed) && yield(4, nil)
	}
	for refuses, want := range map[int][]int{0: {10, 30, 0}, 3: {10, 0}} {
		var got []int
		var last error
		for v, err := range plan.Picked(all, func(n int) (int, bool, error) {
			if n == refuses {
				return 0, true, failed
			}
			return 10 * n, n != 2, nil
		}) {
			got, last = append(got, v), err
		}
		if !slices.Equal(got, want) || !errors.Is(last, failed) {
			t.Errorf("%v, %v; want %v", got, last, want)
		}
	}
	for v, err := range plan.Picked(all, func(n int) (int, bool, error) { return n, true, nil }) {
		if v == 1 && err == nil {
			break
		}
		t.Errorf("%d, %v after the loop was left", v, err)
	}
}
