package main

import "slices"

// part is some figures that are drawn together.
type part struct {
	name   string
	groups []func() []Figure
}

func (p part) figures() (figures []Figure) {
	for _, group := range p.groups {
		figures = slices.Concat(figures, group())
	}
	return figures
}

// parts are the figures of the project.
var parts = []part{
	{"dynamodb", []func() []Figure{dynamodbFigures, akkaFigures, esaFigures}},
	{"sqlite", []func() []Figure{sqliteFigures}},
	{"postgres", []func() []Figure{postgresFigures}},
	{"entities", []func() []Figure{runtimeFigures, ownersFigures}},
	{"projections", []func() []Figure{projectionFigures, processFigures}},
}
