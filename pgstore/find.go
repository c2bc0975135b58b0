package pgstore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/statetype"
)

// FindStates implements ability.StateFinder.
func (v *view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	t, after, size := v.s.tableOf(entityType), "", pageSize(queryPage)
	return driver.Pages(ctx, func(ctx context.Context) ([]annals.State, bool, error) {
		wanted, err := statetype.Find(entityType, t.StateType, column, value, v.s.keep(t))
		if err != nil {
			return nil, false, err
		}
		is, args := " IS NULL", []any{entityType, after, int(size)}
		if wanted != nil {
			is, args = " = $4", append(args, wanted)
		}
		sql := t.fill(`SELECT `+stateColumns+` FROM "durable_state" s WHERE entity_type = $1 AND persistence_id > $2 AND state_ser_id <> 0`+t.newest()) +
			" AND " + quote(column) + is + ` ORDER BY persistence_id LIMIT $3`
		page, cut, err := v.queryStates(ctx, sql, args...)
		if len(page) > 0 {
			after = string(page[len(page)-1].ID)
		}
		return page, size.full(len(page), int(size), cut), err
	})
}

// queryStates runs a query for stateColumns, and collects what it returns.
func (v *view) queryStates(ctx context.Context, sql string, args ...any) (all []annals.State, cut bool, err error) {
	rows, err := v.reader(ctx).Query(ctx, sql, append([]any{idAndEventFormats}, args...)...)
	if err != nil {
		return nil, false, err
	}
	d := newEventDecoder(rows, "", nil)
	d.states = true
	return collect(d, asState)
}

// asState is the state whose columns were read as those of an event.
func asState(e annals.Event) annals.State {
	s := annals.State{ID: e.ID, Revision: e.SeqNr, Time: e.Time, Payload: e.Payload, Tags: e.Tags, Metadata: e.Metadata}
	if s.SerializerID == 0 {
		s.Deleted, s.Payload = true, annals.Payload{}
	}
	return s
}
