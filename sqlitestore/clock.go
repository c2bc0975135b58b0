package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
)

// maxAhead is how far NewEvent.Time may be ahead of the clock. The events that follow have later times, so an imported time far in
// the future would falsify theirs.
const maxAhead = time.Minute

// clock is the newest date given, in microseconds. It belongs to whoever holds the writing connection.
type clock struct {
	last    int64
	version int64  // of the file, as this connection saw it when last was right
	newest  string // the query for the newest date in the file
}

// newClock reads the dates of events and states. Where the newest events have been deleted, the table annals knows.
func newClock(stateTables []string) clock {
	newest := `SELECT max(clock, ifnull((SELECT max(db_timestamp) FROM event_journal WHERE deleted = 0), 0)`
	for _, table := range stateTables {
		newest += `, ifnull((SELECT max(db_timestamp) FROM ` + table + `), 0)`
	}
	return clock{newest: newest + `) FROM annals`}
}

// catchUp reads the newest date again when another connection has written since. SQLite counts that.
func (c *clock) catchUp(ctx context.Context, q *statements) error {
	var version, newest int64
	read := func(v *values) { version = v.any64("data_version") }
	if _, err := q.row(ctx, `PRAGMA data_version`, nil, read); err != nil || version == c.version {
		return err
	}
	if _, err := q.row(ctx, c.newest, nil, func(v *values) { newest = v.micros("db_timestamp") }); err != nil {
		return err
	}
	c.last, c.version = max(c.last, newest), version
	return nil
}

// keepClock stores the newest date, for when the events that have it are deleted.
func (t *transaction) keepClock(ctx context.Context) error {
	now, err := t.date(ctx)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, `UPDATE annals SET clock = ?`, now)
	return err
}

// pass makes later dates be above micros.
func (c *clock) pass(micros int64) { c.last = max(c.last, micros) }

// eventTime is the time of e in a commit at the time now, in microseconds.
func eventTime(e *annals.NewEvent, now int64) int64 {
	if e.Time.IsZero() {
		return now
	}
	return e.Time.UnixMicro()
}

// checkTimes refuses a NewEvent.Time before 1970, or more than maxAhead in the future.
func checkTimes(events ...annals.NewEvent) error {
	for i := range events {
		t := events[i].Time
		switch {
		case t.IsZero():
		case t.UnixMicro() < 0:
			return invalid(fmt.Sprintf("event %d: the time %v is before 1970", i+1, t))
		case time.Until(t) > maxAhead:
			return invalid(fmt.Sprintf("event %d: the time %v is more than %v in the future", i+1, t, maxAhead))
		}
	}
	return nil
}
