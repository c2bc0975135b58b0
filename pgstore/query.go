package pgstore

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/position"
)

// query is the annals.Query of a view.
type query struct{ *view }

// queryPage is how many rows a page has at most.
const queryPage = 1000

// condition collects the conditions of a statement and their arguments.
type condition struct {
	args  []any
	parts []string
}

func (c *condition) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

func (c *condition) and(format string, args ...any) {
	c.parts = append(c.parts, fmt.Sprintf(format, args...))
}

func (c *condition) where() string { return strings.Join(c.parts, " AND ") }

// matching is the condition for f, except its limit, up to a time; zero is no bound. seqNr is the column that is second in the order of
// Offset.
func (q query) matching(f annals.Filter, until time.Time, seqNr string) *condition {
	c := &condition{parts: []string{"TRUE"}}
	if from, to := f.Slices.Bounds(); from >= annals.SliceCount || f.Type != "" && !q.s.yugabyte {
		// A list, because the index has slice, type and time, and is searched once per slice. The server expects one slice of it. With the ten that it
		// expects of a bare array it scans a table that is small when it makes the plan, and goes on to scan it while the table grows.
		c.and("slice IN (SELECT n FROM unnest(%s::int[]) AS s (n) WHERE n >= 0 AND n < %d)", c.arg(position.Slices(f.Slices)), annals.SliceCount)
	} else if f.Type != "" || f.Slices != (annals.SliceRange{}) {
		c.and("slice BETWEEN %s AND %s", c.arg(from), c.arg(to-1))
	}
	c.match(f, until, seqNr)
	return c
}

// match adds the condition for f, except slices and limit.
func (c *condition) match(f annals.Filter, until time.Time, seqNr string) {
	if f.Type != "" {
		c.and("entity_type = %s", c.arg(f.Type))
	}
	if f.Tag != "" {
		c.and("tags::text[] @> ARRAY[%s::text]", c.arg(f.Tag))
	}
	if f.Behind > 0 {
		c.and("db_timestamp < transaction_timestamp() - %s::bigint * interval '1 microsecond'", c.arg(f.Behind.Microseconds()))
	}
	if !until.IsZero() {
		c.and("db_timestamp <= %s", c.arg(until))
	}
	if o := f.After; !o.Time.IsZero() {
		// An index supports the first condition only.
		at := c.arg(o.Time)
		c.and("db_timestamp >= %s", at)
		c.and(`(db_timestamp > %s OR (%s, persistence_id COLLATE "C") > (%s::bigint, %s::text))`, at, seqNr, c.arg(int64(o.SeqNr)), c.arg(string(o.ID)))
	}
}

// Events implements annals.Query. Go compares ids byte by byte, as the collation "C" does.
func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return pages(ctx, f, annals.Event.Offset, q.estimate, func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]annals.Event, bool, error) {
		m := q.matching(f, until, "seq_nr")
		sql := q.s.fill(`SELECT persistence_id, ` + columnsFor(f, eventColumns) + ` FROM "event_journal" WHERE ` + m.where() + ` AND NOT deleted
			ORDER BY db_timestamp, seq_nr, persistence_id COLLATE "C" LIMIT ` + m.arg(limit))
		rows, err := q.reader(ctx).Query(ctx, sql, append([]any{idAndEventFormats}, m.args...)...)
		if err != nil {
			return nil, false, err
		}
		return allEvents(limit, newEventDecoder(rows, "", nil))
	})
}

// snapshotsOfEvents are the snapshots with the times and tags of their events. A plugin that does not follow snapshots leaves both columns as they
// are, NULL or of the event of an earlier snapshot. So where a snapshot was not taken within a second of the time it has, its event is looked up.
const snapshotsOfEvents = `(SELECT persistence_id, slice, entity_type, seq_nr, write_timestamp, ser_id, ser_manifest, snapshot, meta_ser_id, meta_ser_manifest, meta_payload,
		CASE WHEN e.db_timestamp IS NULL OR e.db_timestamp = s.db_timestamp THEN s.tags ELSE e.tags END AS tags, coalesce(e.db_timestamp, s.db_timestamp, ` + atWritten + `) AS db_timestamp
	FROM "snapshot" s LEFT JOIN LATERAL (SELECT j.db_timestamp, j.tags FROM "event_journal" j
		WHERE j.persistence_id = s.persistence_id AND j.seq_nr = s.seq_nr AND NOT j.deleted
			AND (` + atWritten + ` BETWEEN s.db_timestamp - interval '1 millisecond' AND s.db_timestamp + interval '1 second') IS NOT TRUE LIMIT 1) e ON TRUE) s`

// Snapshots implements annals.Query.
func (q query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return pages(ctx, f, annals.Snapshot.Offset, nil, func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]annals.Snapshot, bool, error) {
		m := q.matching(f, until, "seq_nr")
		sql := q.s.fill(`SELECT db_timestamp, persistence_id, ` + columnsFor(f, snapshotColumns) + ` FROM ` + snapshotsOfEvents + `
			WHERE ` + m.where() + ` ORDER BY db_timestamp, seq_nr, persistence_id COLLATE "C" LIMIT ` + m.arg(limit))
		rows, err := q.reader(ctx).Query(ctx, sql, m.args...)
		if err != nil {
			return nil, false, err
		}
		var eventTime time.Time
		return collect(newEventDecoder(rows, "", &eventTime), func(e annals.Event) annals.Snapshot {
			s := asSnapshot(e)
			s.EventTime = eventTime.UTC()
			return s
		})
	})
}

func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return pages(ctx, f, annals.State.Offset, nil, func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]annals.State, bool, error) {
		m := q.matching(f, until, "revision")
		where, inOrder := m.where(), ` ORDER BY db_timestamp, revision, persistence_id COLLATE "C" LIMIT `+m.arg(limit)
		sql := `SELECT * FROM (` + union(q.s.stateTables(f.Type), func(t *stateTable) string {
			return `(SELECT ` + columnsFor(f, stateColumns) + ` FROM "durable_state" s WHERE ` + where + t.newest() + inOrder + `)`
		}) + `) s` + inOrder
		return q.queryStates(ctx, sql, m.args...)
	})
}

// union is the query for each of the tables as one query.
func union(tables []*stateTable, query func(*stateTable) string) string {
	parts := make([]string, len(tables))
	for i, t := range tables {
		parts[i] = t.fill(query(t))
	}
	return strings.Join(parts, " UNION ALL ")
}

// Newest implements annals.Query. With a type it looks for the newest event of each slice, which the index has: a sort would read all events of
// the type.
func (q query) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	const inOrder = ` ORDER BY db_timestamp DESC, seq_nr DESC, persistence_id COLLATE "C" DESC LIMIT 1`
	m, events := q.matching(f, time.Time{}, "seq_nr"), `"event_journal" WHERE `
	if f.Type != "" && !q.s.yugabyte {
		m = &condition{}
		m.match(f, time.Time{}, "seq_nr")
		events = `unnest(` + m.arg(position.Slices(f.Slices)) + `::int[]) AS s (slice) CROSS JOIN LATERAL (SELECT db_timestamp, seq_nr, persistence_id
			FROM "event_journal" j WHERE j.slice = s.slice AND ` + m.where() + ` AND NOT deleted` + inOrder + `) newest`
	} else {
		events += m.where() + ` AND NOT deleted`
	}
	err = q.eachOffset(ctx, func(o annals.Offset) { newest = o }, q.s.fill(`SELECT db_timestamp, seq_nr, persistence_id FROM `+events+inOrder), m.args...)
	return newest, err
}
