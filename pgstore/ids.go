package pgstore

import (
	"context"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// IDs are in the order of the columns' collation, the same in every call.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for {
			page, err := q.ids(ctx, entityType, after)
			if err != nil {
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

// ids is a page of ids: each table gives its first ones, and the server merges them.
func (q query) ids(ctx context.Context, entityType string, after annals.PersistenceID) (page []annals.PersistenceID, err error) {
	c, err := q.begin(ctx, "query ids", "", 0)
	if err != nil {
		return nil, err
	}
	defer c.end(&err)
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
	rows, err := q.reader().Query(c.ctx, `SELECT persistence_id FROM (`+strings.Join(parts, " UNION ")+`) ids ORDER BY persistence_id LIMIT $2`, args...)
	if err != nil {
		return nil, err
	}
	c.result.Requests = 1
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		page = append(page, annals.PersistenceID(id))
		return nil
	})
	return page, err
}
