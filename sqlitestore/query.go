package sqlitestore

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/annals-go/annals"
)

// query is the annals.Query of a view. Each commit gets a later time than all commits before, so that a follower that continues after
// the last offset that it has read misses nothing.
type query struct{ view }

// Events is annals.Query.
func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	until := heldBack(f)
	return pages(ctx, q.view, f.Limit, func(ctx context.Context, q *statements, p *page[annals.Event], last *annals.Event) error {
		if last != nil {
			f.After = last.Offset()
		}
		return scanEvents(ctx, q, p, f, until)
	})
}

func scanEvents(ctx context.Context, q *statements, p *page[annals.Event], f annals.Filter, until int64) error {
	columns := `persistence_id, ` + eventColumns
	if f.KeysOnly {
		columns = strings.NewReplacer(`event_payload`, `x''`, `crc32c`, `NULL`).Replace(columns)
	}
	where, args := filterEvents(f, until)
	text := `SELECT ` + columns + ` FROM event_journal WHERE ` + where + ` ORDER BY db_timestamp, seq_nr, persistence_id LIMIT ?`
	var row eventRow
	return q.rows(ctx, text, append(args, pageRows), func(v *values) (bool, error) {
		row.ID = v.id("persistence_id")
		if err := row.read(v); err != nil {
			return false, err
		}
		return p.add(row.Event, len(row.Data)+len(row.Metadata.Data)), nil
	})
}

// States is annals.Query.
func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	until, tables := heldBack(f), q.b.types.tables(f.Type)
	return pages(ctx, q.view, f.Limit, func(ctx context.Context, q *statements, p *page[annals.State], last *annals.State) error {
		if last != nil {
			f.After = last.Offset()
		}
		text, args := stateQuery(f, until, tables)
		return scanStates(ctx, q, p, text, args...)
	})
}

// stateQuery is the statement that reads one page of states from all tables, with its arguments.
func stateQuery(f annals.Filter, until int64, tables []string) (text string, args []any) {
	columns := stateColumns
	if f.KeysOnly {
		columns = strings.NewReplacer(`state_payload`, `x''`, `crc32c`, `NULL`).Replace(columns)
	}
	where, one := filter(f, until, `revision`)
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = `SELECT ` + columns + ` FROM ` + table + ` WHERE ` + where
		args = append(args, one...)
	}
	return strings.Join(parts, ` UNION ALL `) + ` ORDER BY db_timestamp, revision LIMIT ?`, append(args, pageRows)
}

// IDs is annals.Query, in the order of the ids' bytes.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	// No id contains the byte 0xff, so it is greater than every id. Type+"{\xff" is after all ids "Type{…" and before all ids "Type|…",
	// because { is the character before |.
	from, to := string(after), "\xff"
	if entityType != "" {
		from, to = max(from, entityType+"{\xff"), entityType+"|\xff"
	}
	if strings.Contains(entityType, "|") {
		to = "" // no id has such a type
	}
	text := idQuery(q.b.types.tables(entityType))
	return pages(ctx, q.view, 0, func(ctx context.Context, q *statements, p *page[annals.PersistenceID], last *annals.PersistenceID) error {
		if last != nil {
			from = string(*last)
		}
		return q.rows(ctx, text, []any{from, to, pageRows}, func(v *values) (bool, error) {
			id := v.id("persistence_id")
			return p.add(id, len(id)), v.corrupt()
		})
	})
}

// idQuery is the statement that reads up to ?3 ids between ?1 and ?2. It seeks the next id in the index of each table, so its cost does
// not depend on the number of events.
func idQuery(stateTables []string) string {
	next := `SELECT min(persistence_id) AS id FROM event_journal WHERE persistence_id > ids.id AND persistence_id < ?2`
	for _, table := range stateTables {
		next += `
			UNION ALL SELECT min(persistence_id) FROM ` + table + ` WHERE persistence_id > ids.id AND persistence_id < ?2`
	}
	return `WITH RECURSIVE ids (id) AS (
			SELECT ?1
			UNION ALL SELECT (SELECT min(id) FROM (` + next + `)) FROM ids WHERE ids.id IS NOT NULL
		) SELECT id FROM ids WHERE id > ?1 LIMIT ?3`
}

// Newest is annals.Query.
func (q query) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	where, args := filterEvents(f, heldBack(f))
	text := `SELECT db_timestamp, seq_nr, persistence_id FROM event_journal
		WHERE ` + where + ` ORDER BY db_timestamp DESC, seq_nr DESC, persistence_id DESC LIMIT 1`
	err = q.read(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.row(ctx, text, args, func(v *values) {
			newest.Time, newest.SeqNr, newest.ID = fromMicros(v.micros("db_timestamp")), v.seqNr("seq_nr", 1), v.id("persistence_id")
		})
		return err
	})
	return newest, err
}

// heldBack is the time from which on events are left out because of f.Behind, in microseconds.
func heldBack(f annals.Filter) int64 { return time.Now().Add(-f.Behind).UnixMicro() }

func filterEvents(f annals.Filter, until int64) (where string, args []any) {
	where, args = filter(f, until, `seq_nr`)
	return `deleted = 0 AND ` + where, args
}

// filter returns the conditions for f on a table whose numbers are in the column number, and their arguments.
func filter(f annals.Filter, until int64, number string) (where string, args []any) {
	after := f.After
	micros := after.Time.UnixMicro()
	if ceil := ceilMicros(after.Time); ceil != micros {
		micros, after = ceil, annals.Offset{} // the time is between two microseconds: all rows of the later one are after it
	}
	where = `(db_timestamp, ` + number + `, persistence_id) > (?, ?, ?)`
	args = []any{micros, int64(after.SeqNr), string(after.ID)}
	add := func(condition string, values ...any) {
		where, args = where+` AND `+condition, append(args, values...)
	}
	if f.Behind > 0 {
		add(`db_timestamp < ?`, until)
	}
	if from, to := f.Slices.Bounds(); from > 0 || to < annals.SliceCount {
		add(`slice >= ? AND slice < ?`, int64(from), int64(to))
	}
	if f.Type != "" {
		add(`entity_type = ?`, f.Type)
	}
	if f.Tag != "" {
		add(`EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)`, f.Tag)
	}
	return where, args
}
