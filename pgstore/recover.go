package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Kinds of rows of recoverEntity, in its first column.
const (
	lastRow = iota // has only the entity's last number
	snapshotRow
	eventRow
)

// recoverPage is how many events recoverEntity returns at most. Further ones are read as in a replay.
const recoverPage = 1000

// recoverFormats are the formats of a row's kind and of the eventColumns.
var recoverFormats = append(pgx.QueryResultFormats{pgx.BinaryFormatCode}, eventFormats...)

// recoverEntity reads the entity $1, and $2 events at most.
const recoverEntity = `
	WITH snap AS MATERIALIZED (SELECT * FROM "snapshot" WHERE persistence_id = $1)
	(SELECT 0, coalesce((SELECT seq_nr FROM "event_journal" WHERE persistence_id = $1 ORDER BY seq_nr DESC LIMIT 1), 0),
		'epoch'::timestamptz, 0, '', NULL::bytea, '', '', NULL::text[], NULL::int, NULL::text, NULL::bytea)
	UNION ALL (SELECT 1, ` + snapshotColumns + ` FROM snap)
	UNION ALL (SELECT 2, ` + eventColumns + ` FROM "event_journal" WHERE persistence_id = $1 AND NOT deleted
		AND seq_nr > coalesce((SELECT seq_nr FROM snap), 0) ORDER BY seq_nr LIMIT $2)
	ORDER BY 1, 2`

// Recover implements ability.Recoverer.
func (v *view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.RecoverFrom(ctx, &replay{view: v, id: id, limit: recoverPage}, snapshot, event)
}

// Begin is driver.Reader. One statement reads the last number, the snapshot and the first events after it. They are of one moment, so no
// snapshot replaces events that are missing in front of those.
func (r *replay) Begin(ctx context.Context, _ bool) (b driver.Beginning, err error) {
	var first driver.Part
	err = driver.Fetch(ctx, func(ctx context.Context) (err error) {
		first, err = r.first(ctx, &b)
		return err
	})
	b.AtOnce = true
	b.Rows = func(yield func(driver.Part, error) bool) {
		if more := r.full(); !yield(first, nil) || !more {
			return
		}
		r.pages(ctx, first.Events[len(first.Events)-1].SeqNr+1, annals.MaxSeqNr, true, yield)
	}
	return b, err
}

// first reads the last number, the snapshot and the events after it.
func (r *replay) first(ctx context.Context, b *driver.Beginning) (p driver.Part, err error) {
	rows, err := r.reader(ctx).Query(ctx, r.s.sql.recover, recoverFormats, string(r.id), recoverPage)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	var kind int32
	d := newEventDecoder(rows, r.id, &kind)
	for rows.Next() {
		var e annals.Event
		if err := d.event(&e); err != nil {
			return p, err
		}
		switch kind {
		case lastRow:
			p.Last = e.SeqNr
		case snapshotRow:
			b.Snapshot, b.Found = asSnapshot(e), true
		case eventRow:
			p.Events = append(p.Events, e)
		}
	}
	r.events, r.bytes, r.limit = 0, 0, recoverPage
	r.count(p.Events)
	return p, rows.Err()
}
