package pgstore

import (
	"context"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// IDs implements annals.Query. The order is that of the columns' collation, the same in every call.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for {
			var page []annals.PersistenceID
			if err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
				page, err = q.ids(ctx, entityType, after)
				return err
			}); err != nil {
				yield("", err)
				return
			}
			for _, after = range page {
				if !yield(after, nil) {
					return
				}
			}
			if len(page) < queryPage {
				return
			}
		}
	}
}

// ids is a page of ids: the first ones of each table, merged.
func (q query) ids(ctx context.Context, entityType string, after annals.PersistenceID) ([]annals.PersistenceID, error) {
	ofType := "TRUE"
	args := []any{string(after), queryPage}
	if entityType != "" {
		ofType = "entity_type = $3"
		args = append(args, entityType)
	}
	// The journal has many rows per id: go from id to id in the index instead of reading all rows.
	parts := []string{q.s.fill(`
		(WITH RECURSIVE step AS (
			(SELECT persistence_id FROM {journal} WHERE persistence_id > $1 AND {type} ORDER BY persistence_id LIMIT 1)
			UNION ALL
			SELECT next.persistence_id FROM step CROSS JOIN LATERAL (
				SELECT j.persistence_id FROM {journal} j WHERE j.persistence_id > step.persistence_id AND {type} ORDER BY j.persistence_id LIMIT 1) next)
		SELECT persistence_id FROM step LIMIT $2)`, "{type}", ofType)}
	for _, t := range q.s.stateTables(entityType) {
		parts = append(parts, q.s.fill(`(SELECT DISTINCT persistence_id FROM {state} WHERE persistence_id > $1 AND {type} ORDER BY persistence_id LIMIT $2)`,
			"{state}", t.name, "{type}", ofType))
	}
	driver.Count(ctx, annals.Result{Requests: 1})
	rows, err := q.reader().Query(ctx, `SELECT persistence_id FROM (`+strings.Join(parts, " UNION ")+`) ids ORDER BY persistence_id LIMIT $2`, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[annals.PersistenceID])
}
