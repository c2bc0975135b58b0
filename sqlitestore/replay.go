package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		err := j.replay(ctx, &stream{id: id, from: from, to: to}, func(e annals.Event) bool { return yield(e, nil) })
		if err != nil {
			yield(annals.Event{}, err)
		}
	}
}

// replay yields the events of the page that s has read last, and of the pages that follow.
func (v view) replay(ctx context.Context, s *stream, yield func(annals.Event) bool) error {
	for {
		for i := range s.events {
			if !yield(s.events[i]) {
				return nil
			}
		}
		if s.ended {
			return nil
		}
		if err := driver.Fetch(ctx, func(ctx context.Context) error { return v.readTx(ctx, s.page) }); err != nil {
			return err
		}
	}
}

// stream reads the events of one entity in pages.
type stream struct {
	id       annals.PersistenceID
	from, to annals.SeqNr
	anchor   annals.SeqNr   // the number of the last event that was read; 0 before the first
	events   []annals.Event // of the page read last
	bytes    int
	ended    bool
	last     annals.SeqNr // the last number of the entity, when the page read last is the last one; else 0
}

// page reads the next page into s.events. A page after the first begins with the anchor, the event that was read last. Events are
// deleted in ascending order: as long as the anchor is there, no event after it has been deleted. When the anchor is missing, the next
// number must be there; when that is missing, too, events were deleted since the last page, and the error is ErrTruncated. The statements
// of a page must see the same moment.
func (s *stream) page(ctx context.Context, q *statements) error {
	const text = `SELECT ` + eventColumns + ` FROM event_journal
		WHERE persistence_id = ? AND seq_nr >= ? AND seq_nr <= ? ORDER BY seq_nr LIMIT ?`
	s.events, s.bytes = s.events[:0], 0
	row := eventRow{Event: annals.Event{ID: s.id}}
	rows, read, next, anchored := 0, annals.SeqNr(0), s.from, s.anchor == 0
	if !anchored {
		next = s.anchor + 1
	}
	err := q.rows(ctx, text, []any{string(s.id), int64(s.from), int64(s.to), pageRows + 1}, func(v *values) (bool, error) {
		if err := row.read(v); err != nil {
			return false, err
		}
		rows++
		read = row.SeqNr
		if row.SeqNr == s.anchor {
			anchored = !row.deleted
			return true, nil
		}
		if !anchored && (row.deleted || row.SeqNr != s.anchor+1) {
			return false, s.truncated()
		}
		anchored = true
		begun := s.anchor > 0 || len(s.events) > 0
		switch {
		case row.deleted && !begun:
			next = row.SeqNr + 1
			return true, nil
		case row.deleted:
			return false, row.corrupt(errors.New("the event is deleted, but the event before it is not"))
		case row.SeqNr != next && begun:
			return false, row.corrupt(errors.New("the event before it is missing"))
		}
		s.events = append(s.events, row.Event)
		s.bytes += len(row.Data) + len(row.Metadata.Data)
		next = row.SeqNr + 1
		return s.bytes < pageBytes, nil
	})
	if err != nil {
		return err
	}
	complete := rows <= pageRows && s.bytes < pageBytes
	if complete {
		if err := s.end(ctx, q, read, anchored); err != nil {
			return err
		}
	}
	if n := len(s.events); n > 0 {
		s.from, s.anchor = s.events[n-1].SeqNr, s.events[n-1].SeqNr
	} else {
		s.from = next
	}
	s.ended = complete || s.anchor >= s.to
	return nil
}

// end checks the last page, of which the last row has the number read, 0 when the page has no row. Where a key in the index is damaged,
// SQLite finds only the rows before it, without an error. But then the last number is greater, unless it is the damaged one.
func (s *stream) end(ctx context.Context, q *statements, read annals.SeqNr, anchored bool) (err error) {
	if s.last, err = q.lastSeqNr(ctx, s.id); err != nil {
		return err
	}
	if !anchored && s.last != s.anchor { // when it is less, the entity has been forgotten
		return s.truncated()
	}
	// The last row of an entity always stays. Others may all be deleted, but then none is left of the rows before them.
	if want := min(s.last, s.to); s.from <= want && read < want && (want == s.last || read > 0) {
		return &annals.Error{ID: s.id, Kind: annals.ErrCorrupt, Err: fmt.Errorf("event %d: the row is missing", max(read+1, s.from))}
	}
	return nil
}

func (s *stream) truncated() error {
	return &annals.Error{ID: s.id, Kind: annals.ErrTruncated}
}
