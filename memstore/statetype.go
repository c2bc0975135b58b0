package memstore

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

func validTypes(types map[string]annals.StateType[Tx]) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		if strings.ContainsRune(name, '|') {
			faults = append(faults, fmt.Errorf("state type %q: a type has no '|'", name))
		}
		if (len(t.Columns) > 0) != (t.Bind != nil) {
			faults = append(faults, fmt.Errorf("state type %q: Columns and Bind go together", name))
		}
	}
	return errors.Join(faults...)
}

// handle runs what the type of s wants to happen with a change, and returns the additional columns of s. An error has undone
// whatever the user's functions did to d.
func (v view) handle(ctx context.Context, d *data, old stateRow, s annals.State) (columns annals.Columns, err error) {
	t, ok := v.types[s.ID.Type()]
	if !ok {
		return nil, nil
	}
	if t.Bind != nil && !s.Deleted {
		if columns, err = bind(t, old, s); err != nil {
			return nil, err
		}
	}
	if t.OnChange == nil {
		return columns, nil
	}
	return columns, v.undoable(ctx, d, func(ctx context.Context) error {
		err := contained(func() error { return t.OnChange(ctx, Tx{d}, s) })
		if ctx.Err() != nil {
			return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
		}
		return err
	})
}

// bind returns the columns of s: those that the user's function names, and of old the others.
func bind(t annals.StateType[Tx], old stateRow, s annals.State) (annals.Columns, error) {
	var named annals.Columns
	err := contained(func() (err error) {
		named, err = t.Bind(s)
		return err
	})
	if err != nil {
		return nil, err
	}
	columns := maps.Clone(old.columns)
	if columns == nil {
		columns = annals.Columns{}
	}
	for name, value := range named {
		if !slices.Contains(t.Columns, name) {
			return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("Bind returned column %q, which StateType.Columns does not name", name)}
		}
		if columns[name], err = column(value); err != nil {
			return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("column %q: %w", name, err)}
		}
	}
	return columns, nil
}

// column is a value as it is kept and compared.
func column(value any) (any, error) {
	switch v := value.(type) {
	case nil, string, int64, float64, bool:
		return v, nil
	case []byte:
		return binary(v), nil
	case time.Time:
		return v.UTC().Truncate(time.Microsecond), nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be stored: string, int64, float64, bool, []byte and time.Time can", value)
}

// binary is a []byte that can be compared with ==.
type binary string

// contained runs the user's function. The kind of its error counts where it is a constraint.
func contained(fn func() error) error {
	return panics.Contain("", "", func() error {
		err := fn()
		if err == nil {
			return nil
		}
		e := &annals.Error{Err: err}
		if errors.Is(err, annals.ErrConstraint) {
			e.Kind = annals.ErrConstraint
		}
		return e
	})
}
