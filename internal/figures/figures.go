package main

import "slices"

// groups are the figures of the project, one function for each part.
var groups = []func() []Figure{
	dynamodbFigures,
	akkaFigures,
	esaFigures,
	sqliteFigures,
	postgresFigures,
	runtimeFigures,
	ownersFigures,
	projectionFigures,
	processFigures,
}

// all is every figure, in the order of groups.
func all() []Figure {
	var figures []Figure
	for _, group := range groups {
		figures = slices.Concat(figures, group())
	}
	return figures
}
