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

func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	columns, until := eventColumns, heldBack(f)
	if f.KeysOnly {
		columns = eventKeys
	}
	return pages(ctx, q.view, f, annals.Event.Offset, func(ctx context.Context, q *statements, f annals.Filter, p *page[annals.Event]) error {
		where, args := filter(f, until, `db_timestamp`, `seq_nr`, p.most)
		text := `SELECT persistence_id, ` + columns + ` FROM event_journal WHERE deleted = 0 AND ` + where + `
			ORDER BY db_timestamp, seq_nr, persistence_id LIMIT ?7`
		var row eventRow
		return q.rows(ctx, text, args, func(v *values) (bool, error) {
			row.ID = v.id("persistence_id")
			if err := row.read(v); err != nil {
				return false, err
			}
			return p.add(row.Event, len(row.Data)+len(row.Metadata.Data)), nil
		})
	})
}

func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	columns, until := stateColumns, heldBack(f)
	if f.KeysOnly {
		columns = stateKeys
	}
	tables := q.b.types.tables(f.Type)
	return pages(ctx, q.view, f, annals.State.Offset, func(ctx context.Context, q *statements, f annals.Filter, p *page[annals.State]) error {
		where, args := filter(f, until, `db_timestamp`, `revision`, p.most)
		text := union(tables, `SELECT `+columns+` FROM durable_state WHERE `+where) + ` ORDER BY db_timestamp, revision LIMIT ?7`
		return scanStates(ctx, q, p, text, args...)
	})
}

func (q query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	until := heldBack(f)
	return pages(ctx, q.view, f, annals.Snapshot.Offset, func(ctx context.Context, q *statements, f annals.Filter, p *page[annals.Snapshot]) error {
		text, args := snapshotPage(f, until, p.most)
		return q.rows(ctx, text, args, func(v *values) (bool, error) {
			id, at := v.id("persistence_id"), fromMicros(v.any64("db_timestamp"))
			s, err := readSnapshot(v, id)
			if err != nil {
				return false, err
			}
			s.EventTime = at
			return p.add(s, len(s.Data)+len(s.Metadata.Data)), nil
		})
	})
}

// snapshotPage is the query for a page of snapshots, most at most.
func snapshotPage(f annals.Filter, until int64, most int) (text string, args []any) {
	columns := snapshotColumns
	if f.KeysOnly {
		columns = snapshotKeys
	}
	where, args := filter(f, until, snapshotEventTime, `seq_nr`, most)
	return `SELECT persistence_id, ` + snapshotEventTime + `, ` + columns + ` FROM snapshot WHERE ` + where + `
		ORDER BY ` + snapshotEventTime + `, seq_nr, persistence_id LIMIT ?7`, args
}

// union is a query of durable_state as one query of all the tables.
func union(tables []string, query string) string {
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = strings.ReplaceAll(query, commonTable, table)
	}
	return strings.Join(parts, ` UNION ALL `)
}

// IDs is annals.Query, in the order of the ids' bytes.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return q.ids(ctx, append([]string{"event_journal"}, q.b.types.tables(entityType)...), entityType, after)
}

// ids yields the ids in tables, each once.
func (q query) ids(ctx context.Context, tables []string, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	// No id contains the byte 0xff, so it is greater than every id. Type+"{\xff" is after all ids "Type{…" and before all ids "Type|…",
	// because { is the character before |.
	from, to := string(after), "\xff"
	if entityType != "" {
		from, to = max(from, entityType+"{\xff"), entityType+"|\xff"
	}
	text := idQuery(tables)
	f := annals.Filter{After: annals.Offset{ID: annals.PersistenceID(from)}}
	offset := func(id annals.PersistenceID) annals.Offset { return annals.Offset{ID: id} }
	return pages(ctx, q.view, f, offset, func(ctx context.Context, q *statements, f annals.Filter, p *page[annals.PersistenceID]) error {
		return q.rows(ctx, text, []any{string(f.After.ID), to, pageRows}, func(v *values) (bool, error) {
			id := v.id("persistence_id")
			return p.add(id, len(id)), v.corrupt()
		})
	})
}

// idQuery is the statement that reads up to ?3 ids between ?1 and ?2. It seeks the next id in the index of each table, so its cost does
// not depend on the number of events.
func idQuery(tables []string) string {
	return `WITH RECURSIVE ids (id) AS (
			SELECT ?1
			UNION ALL SELECT (SELECT min(id) FROM (
				` + union(tables, `SELECT min(persistence_id) AS id FROM durable_state WHERE persistence_id > ids.id AND persistence_id < ?2`) + `
			)) FROM ids WHERE ids.id IS NOT NULL
		) SELECT id FROM ids WHERE id > ?1 LIMIT ?3`
}

func (q query) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	where, args := filter(f, heldBack(f), `db_timestamp`, `seq_nr`, 1)
	text := `SELECT db_timestamp, seq_nr, persistence_id FROM event_journal WHERE deleted = 0 AND ` + where + `
		ORDER BY db_timestamp DESC, seq_nr DESC, persistence_id DESC LIMIT ?7`
	err = q.read(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.row(ctx, text, args, func(v *values) {
			newest.Time, newest.SeqNr, newest.ID = fromMicros(v.micros("db_timestamp")), v.seqNr("seq_nr", 1), v.id("persistence_id")
		})
		return err
	})
	return newest, err
}

// Watermark is just after the newest time in the file.
func (q query) Watermark(ctx context.Context) (at time.Time, err error) {
	err = q.read(ctx, func(ctx context.Context, s *statements) error {
		_, err := s.row(ctx, newestTime(q.b.types.tables("")), nil, func(v *values) { at = fromMicros(v.micros("db_timestamp") + 1) })
		return err
	})
	return at, err
}

// heldBack is the time from which on rows are left out because of f.Behind, in microseconds.
func heldBack(f annals.Filter) int64 { return time.Now().Add(-f.Behind).UnixMicro() }

// filter returns the conditions for f on a table with the times at and the numbers number, and their arguments. ?7 is most, the rows that are
// read.
func filter(f annals.Filter, until int64, at, number string, most int) (where string, args []any) {
	after, micros := f.After, ceilMicros(f.After.Time)
	if micros != after.Time.UnixMicro() {
		after = annals.Offset{} // the time is between two microseconds: all rows of the later one are after it
	}
	from, to := f.Slices.Bounds()
	first := any(int64(from))
	where = `(` + at + `, ` + number + `, persistence_id) > (?1, ?2, ?3)`
	if from >= annals.SliceCount {
		where += ` AND slice IN (SELECT value FROM json_each(?4))`
		first = sliceList(f.Slices)
	} else if from > 0 || to < annals.SliceCount {
		where += ` AND slice >= ?4 AND slice < ?5`
	}
	if f.Behind > 0 {
		where += ` AND ` + at + ` < ?6`
	}
	if f.Type != "" {
		where += ` AND entity_type = ?8`
	}
	if f.Tag != "" {
		where += ` AND EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?9)`
	}
	return where, []any{micros, int64(after.SeqNr), string(after.ID), first, int64(to), until, most, f.Type, f.Tag}
}
