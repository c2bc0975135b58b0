package pgstore

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/annals-go/annals"
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

// numbers are all n with from ≤ n < to.
func numbers(from, to int) []int32 {
	ns := make([]int32, 0, to-from)
	for n := from; n < to; n++ {
		ns = append(ns, int32(n))
	}
	return ns
}

// matching is the condition for f, except its limit, up to a time; zero is no bound. seqNr is the column that is second in the order of
// Offset.
func (q query) matching(f annals.Filter, until time.Time, seqNr string) *condition {
	c := &condition{parts: []string{"TRUE"}}
	if from, to := f.Slices.Bounds(); f.Type != "" && !q.s.yugabyte { // a list, because the index has slice, type and time, and is searched once per slice
		c.and("slice = ANY(%s::int[])", c.arg(numbers(from, to)))
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
		c.and("tags @> ARRAY[%s::text]", c.arg(f.Tag))
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
	columns := q.s.sql.events
	if f.KeysOnly {
		columns = q.s.sql.eventKeys
	}
	return pages(ctx, f, annals.Event.Offset, q.estimate, func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]annals.Event, error) {
		m := q.matching(f, until, "seq_nr")
		sql := q.s.fill(`SELECT persistence_id, {columns} FROM {journal} WHERE {condition} AND NOT deleted ORDER BY db_timestamp, seq_nr, persistence_id COLLATE "C" LIMIT {limit}`,
			"{columns}", columns, "{condition}", m.where(), "{limit}", m.arg(limit))
		rows, err := q.reader(ctx).Query(ctx, sql, append([]any{idAndEventFormats}, m.args...)...)
		if err != nil {
			return nil, err
		}
		return allEvents(limit, newEventDecoder(rows, "", nil))
	})
}

// everything is no bound, for tables with one row per entity and no long history.
func everything(context.Context, annals.Filter, int) (time.Time, error) { return time.Time{}, nil }

// Snapshots implements annals.Query.
func (q query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	from := q.s.sql.snapshots
	if f.KeysOnly {
		from = q.s.sql.snapshotKeys
	}
	return pages(ctx, f, annals.Snapshot.Offset, everything, func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]annals.Snapshot, error) {
		m := q.matching(f, until, "seq_nr")
		sql := q.s.fill(`SELECT db_timestamp, persistence_id, {columns}
			FROM {snapshots} WHERE {condition} ORDER BY db_timestamp, seq_nr, persistence_id COLLATE "C" LIMIT {limit}`,
			"{columns}", payloadColumns("seq_nr", "written", "", "payload", "tags", "meta_ser_id", "meta_ser_manifest", "meta"),
			"{snapshots}", from, "{condition}", m.where(), "{limit}", m.arg(limit))
		rows, err := q.reader(ctx).Query(ctx, sql, m.args...)
		if err != nil {
			return nil, err
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
	return pages(ctx, f, annals.State.Offset, everything, func(ctx context.Context, f annals.Filter, until time.Time, limit int) ([]annals.State, error) {
		m := q.matching(f, until, "revision")
		const inOrder = ` ORDER BY db_timestamp, revision, persistence_id COLLATE "C" LIMIT {limit}`
		sql := `SELECT * FROM (` + union(q.s.stateTables(f.Type), func(t *stateTable) string {
			columns, newest := t.sql.columns, "TRUE"
			if f.KeysOnly {
				columns = t.sql.keys
			}
			if t.wide() { // an entity may have two rows
				newest = "NOT EXISTS (SELECT FROM {state} newer WHERE newer.persistence_id = s.persistence_id AND newer.revision > s.revision)"
			}
			return `(SELECT ` + columns + ` FROM {state} s WHERE {condition} AND ` + newest + inOrder + `)`
		}) + `) s` + inOrder
		return q.queryStates(ctx, q.s.fill(sql, "{condition}", m.where(), "{limit}", m.arg(limit)), m.args...)
	})
}

// union is the query for each of the tables, whose name replaces {state}, as one query.
func union(tables []*stateTable, query func(*stateTable) string) string {
	parts := make([]string, len(tables))
	for i, t := range tables {
		parts[i] = strings.ReplaceAll(query(t), "{state}", t.name)
	}
	return strings.Join(parts, " UNION ALL ")
}

func (q query) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	m := q.matching(f, time.Time{}, "seq_nr")
	sql := q.s.fill(`SELECT db_timestamp, seq_nr, persistence_id FROM {journal} WHERE {condition} AND NOT deleted
		ORDER BY db_timestamp DESC, seq_nr DESC, persistence_id COLLATE "C" DESC LIMIT 1`, "{condition}", m.where())
	err = q.eachOffset(ctx, func(o annals.Offset) { newest = o }, sql, m.args...)
	return newest, err
}
