// Package statetype has what stores do alike with an annals.StateType.
package statetype

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// Faults returns what is wrong with the state types of a store before a table is looked at. own reports whether a column is the
// store's own; name returns what the backend takes a column's name for, such as in lower case; valid returns what is wrong with the name
// of a "table" or a "column". valid may be nil.
func Faults[T any](types map[string]annals.StateType[T], own func(column string) bool, name func(column string) string, valid func(what, name string) error) error {
	var faults []error
	for _, entityType := range slices.Sorted(maps.Keys(types)) {
		t := types[entityType]
		about := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("state type %q: "+format, append([]any{entityType}, args...)...))
		}
		if entityType == "" {
			about("a type has a name")
		}
		if strings.Contains(entityType, "|") {
			about("the name of a type has no |")
		}
		if (len(t.Columns) > 0) != (t.Bind != nil) {
			about("Columns and Bind go together")
		}
		names := func(what string, all ...string) {
			for _, name := range all {
				if valid != nil && name != "" {
					if err := valid(what, name); err != nil {
						about("%w", err)
					}
				}
			}
		}
		names("table", t.Table)
		names("column", t.Columns...)
		seen := map[string]bool{}
		for _, column := range t.Columns {
			switch name := name(column); {
			case name == "" || own(name):
				about("column %q is the store's own", column)
			case seen[name]:
				about("column %q is named twice", column)
			default:
				seen[name] = true
			}
		}
	}
	return errors.Join(faults...)
}

// Bind asks t for the additional columns of s, which are none for a tombstone. keep returns the value, which is nil or of one of the types
// of annals.Columns, as the backend keeps it, or what is wrong with it. The names come in the order of t.Columns, each with its value. A name that is not in t.Columns, or a value
// that keep refuses, is ErrInvalid. An error of the user's function has no Kind, and a panic is ErrPanic.
func Bind[T any](t annals.StateType[T], s annals.State, keep func(column string, value any) (any, error)) (names []string, values []any, err error) {
	if t.Bind == nil || s.Deleted {
		return nil, nil, nil
	}
	var bound annals.Columns
	err = contain(func() (err error) {
		bound, err = t.Bind(s)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for name := range bound {
		if !slices.Contains(t.Columns, name) {
			return nil, nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("Bind returned column %q, which StateType.Columns does not name", name)}
		}
	}
	for _, name := range t.Columns {
		value, ok := bound[name]
		if !ok {
			continue
		}
		kept, err := kept(name, value, keep)
		if err != nil {
			return nil, nil, err
		}
		names, values = append(names, name), append(values, kept)
	}
	return names, values, nil
}

// Find returns the value as the backend keeps it in the additional column of t, the type of entityType, for FindStates. keep is as for
// Bind. ErrInvalid when t has no such column or keep refuses the value.
func Find[T any](entityType string, t annals.StateType[T], column string, value any, keep func(column string, value any) (any, error)) (any, error) {
	if !slices.Contains(t.Columns, column) {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("type %q has no additional column %q", entityType, column)}
	}
	return kept(column, value, keep)
}

func kept(column string, value any, keep func(column string, value any) (any, error)) (v any, err error) {
	switch value.(type) {
	case nil, string, int64, float64, bool, []byte, time.Time:
		v, err = keep(column, value)
	default:
		err = fmt.Errorf("a %T is not string, int64, float64, bool, []byte or time.Time", value)
	}
	if err != nil {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("column %q: %w", column, err)}
	}
	return v, nil
}

// Handle runs fn, the change handler of a state type for one change. A panic in fn is ErrPanic. When ctx has ended Handle is
// ErrUnavailable, whatever fn returned. An error that is of kind ErrConstraint, or that broken recognises as a constraint of the backend,
// is ErrConstraint; any other error of fn has no Kind. broken may be nil.
func Handle(ctx context.Context, fn func() error, broken func(err error) bool) error {
	err := contain(fn)
	switch {
	case errors.Is(err, annals.ErrPanic):
	case ctx.Err() != nil:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
	case err != nil && (errors.Is(err, annals.ErrConstraint) || broken != nil && broken(err)):
		return &annals.Error{Kind: annals.ErrConstraint, Err: errors.Unwrap(err)}
	}
	return err
}

// contain runs the user's fn. A panic in fn becomes an error of kind ErrPanic, an error one without a Kind.
func contain(fn func() error) error {
	return panics.Contain("", "", func() error {
		if err := fn(); err != nil {
			return &annals.Error{Err: err}
		}
		return nil
	})
}
