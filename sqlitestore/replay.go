package sqlitestore

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Replay is annals.Journal.
func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return driver.Replay(ctx, &replay{view: j.view, id: id}, from, to)
}

// Recover is ability.Recoverer.
func (v view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.RecoverFrom(ctx, &replay{view: v, id: id}, snapshot, event)
}

// replay is a driver.Reader. DeleteTo leaves the row of the last number that it deletes, and that row says that all numbers before it are
// deleted.
type replay struct {
	view
	id     annals.PersistenceID
	events []annals.Event // of the page that was read last
	bytes  int            // of their payloads
}

// Begin is driver.Reader. The snapshot and the first page are of one moment, so no snapshot replaces events that are missing in front of
// that page.
func (r *replay) Begin(ctx context.Context, _ bool) (b driver.Beginning, err error) {
	var first part
	err = r.fetch(ctx, func(ctx context.Context, q *statements) (err error) {
		if b.Snapshot, b.Found, err = latestSnapshot(ctx, q, r.id, annals.SnapshotCriteria{}); err == nil {
			first, err = r.page(ctx, q, b.Snapshot.SeqNr+1, annals.MaxSeqNr)
		}
		return err
	})
	b.AtOnce = true
	b.Rows = r.pages(ctx, first, annals.MaxSeqNr)
	return b, err
}

// Rows is driver.Reader.
func (r *replay) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return r.pages(ctx, part{next: from}, to)
}

// Gap is driver.Reader. Where the numbers have no rows, the next row tells whether they were deleted.
func (r *replay) Gap(ctx context.Context, from, to annals.SeqNr) (driver.Part, error) {
	const after = `SELECT seq_nr, deleted FROM event_journal WHERE persistence_id = ? AND seq_nr > ? ORDER BY seq_nr LIMIT 1`
	held := r.events // the walk is at one of them
	r.events = nil
	var p part
	err := r.fetch(ctx, func(ctx context.Context, q *statements) (err error) {
		if p, err = r.page(ctx, q, from, to); err != nil || p.Deleted > 0 || len(p.Events) > 0 {
			return err
		}
		var next annals.SeqNr
		deleted := false
		found, err := q.row(ctx, after, []any{string(r.id), int64(to)}, func(v *values) {
			next, deleted = v.seqNr("seq_nr", 1), v.integer("deleted", 0, math.MaxInt64) != 0
		})
		switch {
		case err != nil:
		case deleted:
			p.Deleted = next
		case !found && p.Last < from: // the entity was forgotten
			err = &annals.Error{ID: r.id, Kind: annals.ErrTruncated}
		}
		return err
	})
	r.events = held
	return p.Part, err
}

func (r *replay) fetch(ctx context.Context, read func(context.Context, *statements) error) error {
	return driver.Fetch(ctx, func(ctx context.Context) error { return r.readTx(ctx, read) })
}

// part is what one transaction reads of an entity.
type part struct {
	driver.Part
	next annals.SeqNr // where the next page begins; 0 with the last page
}

// pages yields a page, if it has been read, and the pages after it.
func (r *replay) pages(ctx context.Context, p part, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		read := len(p.Events) > 0 || p.Deleted > 0 || p.next == 0 // p has been read
		if read && !yield(p.Part, nil) {
			return
		}
		for p.next > 0 && p.next <= to {
			from, again := p.next, read
			err := r.fetch(ctx, func(ctx context.Context, q *statements) (err error) {
				p, err = r.page(ctx, q, from, to)
				return err
			})
			if read = true; again && err == nil && p.next == 0 && p.Last < from-1 { // the entity was forgotten
				err = &annals.Error{ID: r.id, Kind: annals.ErrTruncated}
			}
			if !yield(p.Part, err) || err != nil {
				return
			}
		}
	}
}

// page reads the next page. The last page has the last number: where a key in the index is damaged, SQLite finds only the rows before it,
// without an error, but the last number is greater, unless it is the damaged one.
func (r *replay) page(ctx context.Context, q *statements, from, to annals.SeqNr) (p part, err error) {
	const text = `SELECT ` + eventColumns + ` FROM event_journal
		WHERE persistence_id = ? AND seq_nr >= ? AND seq_nr <= ? ORDER BY seq_nr LIMIT ?`
	r.events, r.bytes = r.events[:0], 0
	row := eventRow{Event: annals.Event{ID: r.id}}
	rows := 0
	err = q.rows(ctx, text, []any{string(r.id), int64(from), int64(to), pageRows + 1}, func(v *values) (bool, error) {
		if err := row.read(v); err != nil {
			return false, err
		}
		rows++
		p.next = row.SeqNr + 1
		switch {
		case !row.deleted:
			r.events = append(r.events, row.Event)
			r.bytes += len(row.Data) + len(row.Metadata.Data)
		case len(r.events) > 0:
			return false, row.corrupt(errors.New("the event is deleted, but the event before it is not"))
		default:
			p.Deleted = row.SeqNr
		}
		return r.bytes < pageBytes, nil
	})
	if p.Events = r.events; err == nil && rows <= pageRows && r.bytes < pageBytes {
		p.next = 0
		p.Last, err = q.lastSeqNr(ctx, r.id)
	}
	return p, err
}
