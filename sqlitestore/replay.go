package sqlitestore

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

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
func (r *replay) Begin(ctx context.Context, _ bool) (driver.Beginning, error) {
	first, err := r.fetch(ctx, behindSnapshot, annals.MaxSeqNr)
	return driver.Beginning{Snapshot: first.snapshot, Found: first.found, AtOnce: true, Rows: r.pages(ctx, first, annals.MaxSeqNr)}, err
}

func (r *replay) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return r.pages(ctx, part{next: from, known: to}, to)
}

// Gap is driver.Reader. Where the numbers have no rows, the next row tells whether they were deleted.
func (r *replay) Gap(ctx context.Context, from, to annals.SeqNr) (driver.Part, error) {
	const after = `SELECT seq_nr, deleted FROM event_journal WHERE persistence_id = ? AND seq_nr > ? ORDER BY seq_nr LIMIT 1`
	held := r.events // the walk is at one of them
	r.events = nil
	var p part
	err := driver.Fetch(ctx, func(ctx context.Context) error {
		return r.readTx(ctx, func(ctx context.Context, q *statements) (err error) {
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
	})
	r.events = held
	return p.Part, err
}

// part is what one statement reads of an entity.
type part struct {
	driver.Part
	snapshot annals.Snapshot
	found    bool         // the snapshot
	next     annals.SeqNr // where the next page begins; 0 with the last page
	known    annals.SeqNr // the entity's last number when the page was read
}

func (r *replay) fetch(ctx context.Context, from, to annals.SeqNr) (p part, err error) {
	err = driver.Fetch(ctx, func(ctx context.Context) error {
		return r.read(ctx, func(ctx context.Context, q *statements) (err error) {
			p, err = r.page(ctx, q, from, to)
			return err
		})
	})
	return p, err
}

// pages yields a page, if it has been read, and the pages after it. What is written after the first page was read is left out: a caller that writes as
// much as it reads comes to an end.
func (r *replay) pages(ctx context.Context, p part, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		read := len(p.Events) > 0 || p.Deleted > 0 || p.next == 0 // p has been read
		if read && !yield(p.Part, nil) {
			return
		}
		for to = min(to, p.known); p.next > 0 && p.next <= to; to = min(to, p.known) {
			from, again := p.next, read
			var err error
			p, err = r.fetch(ctx, from, to)
			if read = true; again && err == nil && p.next == 0 && p.known < from-1 { // the entity was forgotten
				err = &annals.Error{ID: r.id, Kind: annals.ErrTruncated}
			}
			p.Last = min(p.Last, to)
			if !yield(p.Part, err) || err != nil {
				return
			}
		}
	}
}

// behindSnapshot instead of the first number of a page means the snapshot and the events behind it.
const behindSnapshot annals.SeqNr = 0

// firstEvents bounds the memory that a page takes before its events are read. Some numbers up to the last may have no event.
const firstEvents = 100

// pageText reads a page, from ?2 or behindSnapshot, which is NULL. It is one statement, so that everything is of one moment and the driver
// begins and ends one query. The rows that are no events have a text in the column deleted. INDEXED BY is for the order: with an ORDER BY
// SQLite would copy each row, and a replay would take 1.07 times the processor time (measured).
//
// One row has the entity's last number: where a key in the index is damaged, SQLite finds only the rows before it, without an error, but the
// last number is greater, unless it is the damaged one.
var pageText = unnamed(snapshotAt+10) + `SELECT 'snapshot', NULL, NULL, ` + snapshotColumns + ` FROM snapshot WHERE persistence_id = ?1 AND ?2 IS NULL
	UNION ALL SELECT 'last', NULL, NULL, ifnull(max(seq_nr), 0), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM event_journal WHERE persistence_id = ?1
	UNION ALL SELECT ` + eventColumns + ` FROM event_journal INDEXED BY sqlite_autoindex_event_journal_1
		WHERE persistence_id = ?1 AND seq_nr <= ?3
			AND seq_nr >= coalesce(?2, (SELECT seq_nr + 1 FROM snapshot WHERE persistence_id = ?1), 1)`

// page reads the next page. Only the last page has the last number.
func (r *replay) page(ctx context.Context, q *statements, from, to annals.SeqNr) (p part, err error) {
	r.events, r.bytes = r.events[:0], 0
	row := eventRow{Event: annals.Event{ID: r.id}}
	rows, full := 0, false
	args := []any{string(r.id), int64(from), int64(to)}
	if from == behindSnapshot {
		args[1] = nil
	}
	err = q.rows(ctx, pageText, args, func(v *values) (_ bool, err error) {
		switch v.row[0] {
		case "snapshot":
			v.next = snapshotAt
			p.snapshot, err = readSnapshot(v, r.id)
			p.found = true
			return true, err
		case "last":
			v.next = snapshotAt
			p.known = v.seqNr("seq_nr", 0)
			r.events = slices.Grow(r.events, int(max(0, min(p.known-max(from-1, p.snapshot.SeqNr), firstEvents))))
			return true, v.corrupt()
		}
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
		full = rows > pageRows || r.bytes >= pageBytes
		return !full, nil
	})
	if p.Events = r.events; !full {
		p.next, p.Last = 0, p.known
	}
	return p, err
}
