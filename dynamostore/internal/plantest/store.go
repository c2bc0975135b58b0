package plantest

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Store returns a store that has nothing but the functions of a layout, which r runs.
func Store(r plan.Runner) annals.Store {
	return struct {
		annals.Store
		plan.Runner
	}{Runner: r}
}
