package main

import (
	"context"
	"math"
	"strconv"
)

// Figure is one measured claim.
type Figure struct {
	Name  string // in the output, never renamed: docs quote it
	About string // what is divided by what, in words
	Goal  Goal

	// Run measures once. For a ratio, one run alternates between the two sides, so that both are measured under the same load of the
	// machine. An error means that there is no figure, and counts as a failure.
	Run func(ctx context.Context) (float64, error)
}

// Goal is the value that a figure has to reach.
type Goal struct {
	sign  string
	bound float64
}

// AtLeast is the goal x or more.
func AtLeast(x float64) Goal { return Goal{">=", x} }

// AtMost is the goal x or less.
func AtMost(x float64) Goal { return Goal{"<=", x} }

// Reached reports whether value reaches the goal.
func (g Goal) Reached(value float64) bool {
	if g.sign == ">=" {
		return value >= g.bound
	}
	return value <= g.bound
}

// String is the goal as the output shows it: ">=8", "<=10".
func (g Goal) String() string { return g.sign + strconv.FormatFloat(g.bound, 'f', -1, 64) }

// text is value with three significant digits, and more if necessary for the printed number to be on the same side of the goal as the
// measured one.
func (g Goal) text(value float64) string {
	decimals := 0
	if size := math.Abs(value); size > 0 && size < 100 {
		decimals = 2 - int(math.Floor(math.Log10(size)))
	}
	for ; decimals < 17; decimals++ {
		text := strconv.FormatFloat(value, 'f', decimals, 64)
		if printed, err := strconv.ParseFloat(text, 64); err == nil && g.Reached(printed) == g.Reached(value) {
			return text
		}
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
