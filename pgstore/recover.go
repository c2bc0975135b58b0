package pgstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Kinds of rows of the recovery statement, in its first column.
const (
	lastRow = iota // has only the entity's last number
	snapshotRow
	eventRow
)

// recoverPage is how many events the recovery statement returns at most. Further ones are read as in a replay.
const recoverPage = 1000

// recoverFormats are the formats of a row's kind and of the eventColumns.
var recoverFormats = append(pgx.QueryResultFormats{pgx.BinaryFormatCode}, eventFormats...)

func (s *backend) prepareRecover() {
	s.sql.recover = s.fill(`
		WITH snap AS MATERIALIZED (SELECT * FROM {snapshot} WHERE persistence_id = $1)
		(SELECT {last row}, coalesce(max(seq_nr), 0), 'epoch'::timestamptz, 0, '', ''::bytea, '', '', NULL::text[], NULL::int, NULL::text, NULL::bytea
			FROM {journal} WHERE persistence_id = $1)
		UNION ALL (SELECT {snapshot row}, {snapshot columns} FROM snap)
		UNION ALL (SELECT {event row}, {events} FROM {journal} WHERE persistence_id = $1 AND NOT deleted
			AND seq_nr > coalesce((SELECT seq_nr FROM snap), 0) ORDER BY seq_nr LIMIT {page})
		ORDER BY 1, 2`, "{snapshot columns}", s.snapshotColumns(),
		"{page}", strconv.Itoa(recoverPage), "{last row}", strconv.Itoa(lastRow), "{snapshot row}", strconv.Itoa(snapshotRow), "{event row}", strconv.Itoa(eventRow))
}

// Recover implements annals.Recoverer.
func (v *view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	for begun := false; ; begun = true {
		r := reader{view: v, id: id, to: annals.MaxSeqNr, limit: recoverPage}
		var first recovery
		if err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
			first, err = r.first(ctx)
			return err
		}); err != nil {
			return 0, err
		}
		switch {
		case first.found:
			if err := snapshot(first.snapshot); err != nil {
				return 0, err
			}
		case begun: // the caller has events that only a snapshot can replace
			return 0, &annals.Error{Kind: annals.ErrTruncated}
		}
		last, err := r.deliver(ctx, first.events, event)
		if errors.Is(err, annals.ErrTruncated) && r.overtaken {
			continue
		}
		return max(last, first.last, first.snapshot.SeqNr), err
	}
}

// recovery is the answer to the recovery statement.
type recovery struct {
	last     annals.SeqNr
	snapshot annals.Snapshot
	found    bool
	events   []annals.Event
}

// first reads the snapshot and the events after it.
func (r *reader) first(ctx context.Context) (rec recovery, err error) {
	driver.Count(ctx, annals.Result{Requests: 1})
	rows, err := r.reader().Query(ctx, r.s.sql.recover, recoverFormats, string(r.id))
	if err != nil {
		return recovery{}, err
	}
	defer rows.Close()
	var kind int32
	d := newEventDecoder(rows, r.id, &kind)
	for rows.Next() {
		var e annals.Event
		if err := d.event(&e); err != nil {
			return recovery{}, err
		}
		switch kind {
		case lastRow:
			rec.last = e.SeqNr
		case snapshotRow:
			rec.snapshot, rec.found = asSnapshot(e), true
		case eventRow:
			rec.events = append(rec.events, e)
		}
	}
	if err := rows.Err(); err != nil {
		return recovery{}, err
	}
	if err := r.complete(ctx, rec.events); err != nil {
		return recovery{}, err
	}
	r.add(rec.events)
	r.note()
	return rec, nil
}

// deliver calls event for the first page and those after it. It returns the number of the last event.
func (r *reader) deliver(ctx context.Context, page []annals.Event, event func(annals.Event) error) (last annals.SeqNr, err error) {
	defer r.release()
	for {
		for i := range page {
			if err := event(page[i]); err != nil {
				return 0, err
			}
			last = page[i].SeqNr
		}
		if r.ended {
			return last, nil
		}
		if page, err = r.read(ctx); err != nil {
			r.overtaken = errors.Is(err, annals.ErrTruncated)
			return 0, err
		}
	}
}
