package memstore

import (
	"context"
	"maps"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/statetype"
)

// handle runs what the type of s wants to happen with a change, and returns the additional columns of s. An error has undone
// whatever the user's functions did.
func (v view) handle(ctx context.Context, old stateRow, s annals.State) (annals.Columns, error) {
	t := v.types[s.ID.Type()]
	columns := annals.Columns{}
	if !s.Deleted {
		maps.Copy(columns, old.columns)
	}
	names, values, err := statetype.Bind(t, s, keep)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		columns[name] = values[i]
	}
	if t.OnChange == nil {
		return columns, nil
	}
	ctx = contexts.WithTx(ctx, v.self)
	err = v.undoable(func() error {
		return statetype.Handle(ctx, func() error { return t.OnChange(ctx, Tx{v}, s) }, nil)
	})
	if err == nil {
		err = v.tx.ended
	}
	return columns, err
}

// keep is a value as it is kept and compared.
func keep(_ string, value any) (any, error) {
	switch v := value.(type) {
	case []byte:
		return binary(v), nil
	case time.Time:
		return v.UTC().Truncate(time.Microsecond), nil
	}
	return value, nil
}

// binary is a []byte that can be compared with ==.
type binary string
