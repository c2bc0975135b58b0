package pgstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// What the first column of a row of the recovery statement says that the row is.
const (
	lastRow = iota // only a number: the entity's last
	snapshotRow
	eventRow
)

// recoverPage is how many events a recovery's one statement brings along. Further ones come as in a replay.
const recoverPage = 1000

// recoverFormats are those of a row's kind and of what follows it.
var recoverFormats = append(pgx.QueryResultFormats{pgx.BinaryFormatCode}, eventFormats...)

func (s *Store) prepareRecover() {
	s.sql.recover = s.fill(`
		WITH snap AS MATERIALIZED (SELECT * FROM {snapshot} WHERE persistence_id = $1)
		(SELECT {last row}, $1::text, coalesce(max(seq_nr), 0), 'epoch'::timestamptz, 0, '', ''::bytea, '', '', NULL::text[], NULL::int, NULL::text, NULL::bytea
			FROM {journal} WHERE persistence_id = $1)
		UNION ALL (SELECT {snapshot row}, {snapshot columns} FROM snap)
		UNION ALL (SELECT {event row}, {events} FROM {journal} WHERE persistence_id = $1 AND NOT deleted
			AND seq_nr > coalesce((SELECT seq_nr FROM snap), 0) ORDER BY seq_nr LIMIT $2)
		ORDER BY 1, 3`, "{snapshot columns}", s.snapshotColumns(),
		"{last row}", strconv.Itoa(lastRow), "{snapshot row}", strconv.Itoa(snapshotRow), "{event row}", strconv.Itoa(eventRow))
}

// Recover is annals.Recover in one statement, where the events behind the snapshot are not many thousands.
func (s *Store) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return view{s: s}.recover(ctx, id, snapshot, event)
}

func (v view) recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	if err := validRead("recover", id); err != nil {
		return 0, err
	}
	for begun := false; ; begun = true {
		r := reader{view: v, op: "recover", id: id, to: annals.MaxSeqNr}
		first, err := r.first(ctx)
		if err != nil {
			return 0, err
		}
		switch {
		case first.found:
			if err := snapshot(first.snapshot); err != nil {
				return 0, err
			}
		case begun: // events were handed over that only a snapshot can replace
			return 0, &annals.Error{Op: "recover", ID: id, Kind: annals.ErrTruncated}
		}
		last, err := r.deliver(ctx, first.events, event)
		if errors.Is(err, annals.ErrTruncated) && r.overtaken {
			continue
		}
		return max(last, first.last, first.snapshot.SeqNr), err
	}
}

// firstPage is what the recovery statement says.
type recovery struct {
	last     annals.SeqNr
	snapshot annals.Snapshot
	found    bool
	events   []annals.Event
}

// first asks for the snapshot and the events behind it.
func (r *reader) first(ctx context.Context) (rec recovery, err error) {
	c, err := r.begin(ctx, "recover", r.id, 0)
	if err != nil {
		return recovery{}, err
	}
	defer c.end(&err)
	rows, err := r.reader().Query(c.ctx, r.s.sql.recover, recoverFormats, string(r.id), recoverPage)
	if err != nil {
		return recovery{}, err
	}
	defer rows.Close()
	c.result.Requests = 1
	var kind int32
	d := newEventDecoder(rows, &kind)
	for rows.Next() {
		var e annals.Event
		if err := d.event(&e); err != nil {
			return recovery{}, err
		}
		c.result.Bytes += len(e.Data)
		switch kind {
		case lastRow:
			rec.last = e.SeqNr
		case snapshotRow:
			rec.snapshot, rec.found = asSnapshot(e), true
		case eventRow:
			rec.events = append(rec.events, e)
			c.result.Events++
		}
	}
	if err := rows.Err(); err != nil {
		return recovery{}, err
	}
	if err := r.complete(c, rec.events); err != nil {
		return recovery{}, err
	}
	r.read(rec.events, len(rec.events) < recoverPage, c.result)
	return rec, nil
}

// deliver hands over the first events and those of the pages behind them. It returns the number of the last.
func (r *reader) deliver(ctx context.Context, page []annals.Event, event func(annals.Event) error) (last annals.SeqNr, err error) {
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
		if page, err = r.page(ctx); err != nil {
			r.overtaken = errors.Is(err, annals.ErrTruncated)
			return 0, err
		}
	}
}
