package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
)

// maxAhead is how far NewEvent.Time may be ahead of the clock. All events stored later get later times, so an imported time that is
// far in the future would make their times wrong.
const maxAhead = time.Minute

// clock gives each write a time, in microseconds, that is later than all times in the file. Only the holder of the writing connection
// uses it.
type clock struct {
	last    int64  // the latest time that is known
	settled int64  // last, when settle was called
	version uint32 // the version of the file when last was known to be the latest
	read    bool   // version is known
	newest  string // the query for the latest time in the file
}

// newClock returns a clock that has not read the file yet.
func newClock(stateTables []string) clock { return clock{newest: newestTime(stateTables)} }

// newestTime is the query for the latest time in the file. The table annals holds a time that is not before that of any deleted event.
func newestTime(stateTables []string) string {
	newest := `SELECT max(clock, (SELECT ifnull(max(db_timestamp), 0) FROM event_journal WHERE deleted = 0)`
	for _, table := range stateTables {
		newest += `, (SELECT ifnull(max(db_timestamp), 0) FROM ` + table + `)`
	}
	return newest + `) FROM annals`
}

// catchUp reads the latest time when another connection has written since the last call.
func (c *clock) catchUp(ctx context.Context, q *statements) error {
	version, err := q.version()
	if err != nil || c.read && version == c.version {
		return err
	}
	var newest int64
	if _, err := q.row(ctx, c.newest, nil, func(v *values) { newest = v.micros("db_timestamp") }); err != nil {
		return err
	}
	c.last, c.version, c.read = max(c.last, newest), version, true
	return nil
}

// settle notes the version that the COMMIT of q, a transaction that catchUp was called in, has given to the file.
func (c *clock) settle(q *statements) {
	version, err := q.version()
	c.settled, c.version, c.read = c.last, version, c.read && err == nil
}

// adopt takes over what a copy of c has learned.
func (c *clock) adopt(from *clock) { c.last, c.version, c.read = from.last, from.version, from.read }

// keepClock stores the time of the clock. It is called before events of an entity are deleted, because theirs may be the latest times in the file.
func (t *transaction) keepClock(ctx context.Context, id annals.PersistenceID) error {
	now, err := t.date(ctx, id)
	if err != nil {
		return err
	}
	return t.exec(ctx, `UPDATE annals SET clock = ?`, now)
}

// pass makes the times that follow later than micros.
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
