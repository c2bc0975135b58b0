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
	return q.pagesOfIDs(ctx, entityType, after, false)
}

// pagesOfIDs yields ids; with whole also those that have a snapshot only or a state in the table of another type, and whatever the column of the type says.
func (q query) pagesOfIDs(ctx context.Context, entityType string, after annals.PersistenceID, whole bool) iter.Seq2[annals.PersistenceID, error] {
	return driver.Pages(ctx, func(ctx context.Context) (page []annals.PersistenceID, more bool, err error) {
		if page, err = q.ids(ctx, entityType, after, whole); len(page) > 0 {
			after = page[len(page)-1]
		}
		return page, len(page) == queryPage, err
	})
}

// ids is a page of ids: the first ones of each table, merged.
func (q query) ids(ctx context.Context, entityType string, after annals.PersistenceID, whole bool) ([]annals.PersistenceID, error) {
	ofType, args := "TRUE", []any{string(after), queryPage}
	if entityType != "" {
		ofType, args = "entity_type = $3", append(args, entityType)
	}
	const distinct = `(SELECT DISTINCT persistence_id FROM "durable_state" WHERE persistence_id > $1 AND `
	tables := q.s.stateTables(entityType)
	if whole {
		tables = q.s.stateTables("")
		if entityType != "" {
			ofType, args[2] = "starts_with(persistence_id, $3)", entityType+"|"
		}
	}
	further := union(tables, func(*stateTable) string { return distinct + ofType + ` ORDER BY persistence_id LIMIT $2)` })
	if whole {
		further += " UNION ALL " + q.s.fill(strings.ReplaceAll(distinct, "durable_state", "snapshot")) + ofType + ` ORDER BY persistence_id LIMIT $2)`
	}
	// The journal has many rows per id: go from id to id in the index instead of reading all rows.
	sql := q.s.fill(`
		SELECT DISTINCT persistence_id
		FROM ((WITH RECURSIVE step AS (
				(SELECT persistence_id FROM "event_journal" WHERE persistence_id > $1 AND `+ofType+` ORDER BY persistence_id LIMIT 1)
				UNION ALL
				SELECT next.persistence_id FROM step CROSS JOIN LATERAL (
					SELECT j.persistence_id FROM "event_journal" j WHERE j.persistence_id > step.persistence_id AND `+ofType+` ORDER BY j.persistence_id LIMIT 1) next)
			SELECT persistence_id FROM step LIMIT $2)
			UNION ALL `) + further + `) ids
		ORDER BY persistence_id LIMIT $2`
	rows, err := q.reader(ctx).Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[annals.PersistenceID])
}
