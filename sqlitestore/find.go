package sqlitestore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// FindStates implements annals.StateFinder: the states of entityType whose column has value, nil for NULL, tombstones
// left out, by id.
func (c *contracts) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	call := annals.Call{Op: "find states"}
	return func(yield func(annals.State, error) bool) {
		ctx, o := c.observe(ctx, call)
		err := c.findStates(ctx, o, call, entityType, column, value, yield)
		if err = brokenOff(err); o.end(ctx, err) != nil {
			yield(annals.State{}, err)
		}
	}
}

func (c *contracts) findStates(ctx context.Context, o *observed, call annals.Call, entityType, column string, value any,
	yield func(annals.State, error) bool,
) error {
	t := c.types.of(entityType)
	known := false
	for _, name := range t.Columns {
		known = known || name == column
	}
	if !known {
		return invalid(call.Op, "", "the state type has no additional column of that name")
	}
	arg, err := columnArg(value)
	if err != nil {
		return invalid(call.Op, "", err.Error())
	}
	text := `SELECT ` + stateColumns + ` FROM ` + t.table + ` WHERE ` + t.table + `.` + quote(column) + ` IS ? AND entity_type = ?
		AND state_ser_id <> 0 AND persistence_id > ? ORDER BY persistence_id LIMIT ?`
	last := annals.PersistenceID("")
	return pages(ctx, c, o, call, page[annals.State]{
		read: func(ctx context.Context, q *statements, p *buffer[annals.State]) error {
			return scanStates(ctx, q, p, text, arg, entityType, string(last), pageRows)
		},
		passed: func(s annals.State) { last = s.ID },
	}, yield)
}
