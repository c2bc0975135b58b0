package pgstore

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// recoverPage is how many events recoverEntity returns at most. Further ones are read as in a replay.
const recoverPage = 1000

// recoverFormats are the formats of the last number and of the eventColumns.
var recoverFormats = append(pgx.QueryResultFormats{pgx.TextFormatCode}, eventFormats...)

// recoverEntity reads the entity $1, and $2 events at most. One row has the last number, and the snapshot or NULL; the others are events, in the
// order of their numbers.
const recoverEntity = `
	(SELECT last, snap.* FROM (SELECT coalesce((SELECT seq_nr FROM "event_journal" WHERE persistence_id = $1 ORDER BY seq_nr DESC LIMIT 1), 0) AS last) newest
		LEFT JOIN (SELECT ` + snapshotColumns + ` FROM "snapshot" WHERE persistence_id = $1) snap ON TRUE)
	UNION ALL (SELECT NULL, ` + eventColumns + ` FROM "event_journal" WHERE persistence_id = $1 AND NOT deleted
		AND seq_nr > coalesce((SELECT seq_nr FROM "snapshot" WHERE persistence_id = $1), 0) ORDER BY seq_nr LIMIT $2)`

// Recover implements ability.Recoverer.
func (v *view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.RecoverFrom(ctx, &replay{view: v, id: id, limit: recoverPage}, snapshot, event)
}

// Begin is driver.Reader. One statement reads the last number, the snapshot and the first events after it. They are of one moment, so no
// snapshot replaces events that are missing in front of those.
func (r *replay) Begin(ctx context.Context, _ bool) (b driver.Beginning, err error) {
	var first driver.Part
	memory := parts.Get().(*part)
	err = driver.Fetch(ctx, func(ctx context.Context) (err error) {
		first, err = r.first(ctx, &b, memory)
		return err
	})
	b.AtOnce = true
	b.Rows = func(yield func(driver.Part, error) bool) {
		defer memory.free()
		if more := r.full(); !yield(first, nil) || !more {
			return
		}
		r.pages(ctx, first.Events[len(first.Events)-1].SeqNr+1, first.Last, true, yield)
	}
	return b, err
}

// first reads the last number, the snapshot and the events after it, those in the memory of to.
func (r *replay) first(ctx context.Context, b *driver.Beginning, to *part) (p driver.Part, err error) {
	rows, err := r.reader(ctx).Query(ctx, r.s.sql.recover, recoverFormats, string(r.id), recoverPage)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	events := to.events[:0]
	r.bytes, r.limit, r.cut = 0, recoverPage, false
	for d := newEventDecoder(rows, r.id, nil); rows.Next(); {
		row := rows.RawValues()
		last, present := row[0], row[1] != nil
		if last == nil && r.bytes >= keptBytes {
			r.cut = true
			continue // the row with the last number may follow
		}
		events = append(events, annals.Event{})
		e := &events[len(events)-1]
		if present {
			if err := d.event(e); err != nil {
				return p, err
			}
		}
		if last == nil { // e is an event
			r.bytes += payloads(e)
			continue
		}
		if present {
			b.Snapshot, b.Found = asSnapshot(*e), true
		}
		events = events[:len(events)-1]
		n, err := strconv.ParseInt(string(last), 10, 64)
		if err != nil {
			return p, err
		}
		p.Last = annals.SeqNr(n)
	}
	to.events, p.Events = events, events
	r.events = len(events)
	return p, rows.Err()
}
