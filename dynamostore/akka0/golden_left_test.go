package akka0_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// left is what the plugin lost or left in its tables, by scenario: see docs/formats/akka-v0.md.
var left = map[string]string{
	"default": "hole late 1 998",
	"defects": "hole d-to 5 5",
	"deletes": "hole orphan-confirm 3 3; hole orphan-mark 3 4; hole perm 3 4; hole perm-all 1 4; hole perm-to 1 3",
}

// What is found in the tables of the plugin is what it is known to lose, and nothing else.
func TestGoldenLeft(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bench(t)
			plantest.WantLeft(t, b.layout, b.x, left[name])
		})
	}
}
