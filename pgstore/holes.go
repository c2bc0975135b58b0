package pgstore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/writes"
)

// findGap reads what is known about the numbers $2 … $3, none of which had an event: the last of their rows, or else the next row, if it is
// flagged as deleted, whether there are rows from $2 on and a state, and the events around them.
const findGap = `
	WITH a AS MATERIALIZED (SELECT writer, db_timestamp FROM "event_journal" WHERE persistence_id = $1 AND seq_nr < $2 AND NOT deleted ORDER BY seq_nr DESC LIMIT 1),
		b AS MATERIALIZED (SELECT seq_nr, writer, db_timestamp, deleted FROM "event_journal" WHERE persistence_id = $1 AND seq_nr > $3 ORDER BY seq_nr LIMIT 1),
		marked AS MATERIALIZED (SELECT max(seq_nr) AS seq_nr FROM "event_journal" WHERE persistence_id = $1 AND seq_nr BETWEEN $2 AND $3 AND deleted)
	SELECT coalesce((SELECT seq_nr FROM marked), (SELECT seq_nr FROM b WHERE deleted), 0),
		EXISTS (SELECT FROM "event_journal" WHERE persistence_id = $1 AND seq_nr >= $2),
		EXISTS (SELECT FROM "durable_state" WHERE persistence_id = $1),
		(SELECT writer FROM a), (SELECT db_timestamp FROM a), (SELECT writer FROM b WHERE NOT deleted), (SELECT db_timestamp FROM b)`

// Gap is driver.Reader. A row that is flagged as deleted says that all before it are deleted, unless there is an event before it: then it
// is a marker that a plugin left beyond the last event. Events that belong to a durable state are numbered by its revisions, some of which
// have no event.
func (r *replay) Gap(ctx context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	if r.answer != nil {
		r.answer.receive() // it holds a connection
	}
	var marked annals.SeqNr
	var rows, state bool
	var a, b writer
	err = driver.Fetch(ctx, func(ctx context.Context) error {
		return r.reader(ctx).QueryRow(ctx, r.s.stateTable(r.id).sql.gap, string(r.id), int64(from), int64(to)).
			Scan((*int64)(&marked), &rows, &state, &a.name, &a.at, &b.name, &b.at)
	})
	switch {
	case err != nil:
	case !rows: // the entity was forgotten
		err = &annals.Error{Kind: annals.ErrTruncated}
	case marked > 0 && a.name == nil:
		p.Deleted = marked
	case marked > 0:
		p.Unused, p.Proven = marked, true
	case state || r.s.options.Gaps || a.continued(b):
		p.Unused = to
	}
	return p, err
}

// writer is the writer of an event, and the event's time. The name is nil where there is no event.
type writer struct {
	name *string
	at   *time.Time
}

// continued reports whether a and b, the events around missing numbers, look as if the numbers between them were left unused. Where an event
// adapter on the JVM fails, the plugin stores nothing and the same writer continues after the number, so such a gap is between two writes of
// one writer. Each commit of this package has a writer of its own, and its events share one time unless they were imported with times.
func (a writer) continued(b writer) bool {
	if a.name == nil || b.name == nil {
		return false
	}
	first, _ := writes.ParseID(*a.name) // zero for the name of a foreign writer in another form
	second, _ := writes.ParseID(*b.name)
	return first == second && (first == (annals.WriteID{}) || !a.at.Equal(*b.at))
}
