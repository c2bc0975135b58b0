package sqlitestore

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
)

// A page is read whole before the first of it is yielded, so nothing is held while the body runs.
const (
	pageRows  = 1000
	pageBytes = 1 << 20
)

// Replay implements annals.Journal.
func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	call := annals.Call{Op: "replay", ID: id}
	return func(yield func(annals.Event, error) bool) {
		ctx, o := j.observe(ctx, call)
		err := id.ValidateRead(call.Op, limits)
		if err == nil {
			err = j.replay(ctx, o, call, &stream{id: id, from: max(from, 1), to: to}, func(e annals.Event) error {
				if !yield(e, nil) {
					return errBroken
				}
				return nil
			})
		}
		if err = brokenOff(err); o.end(ctx, err) != nil {
			yield(annals.Event{}, err)
		}
	}
}

// errBroken ends an iteration that its body broke off.
var errBroken = errors.New("broken off")

func brokenOff(err error) error {
	if errors.Is(err, errBroken) {
		return nil
	}
	return err
}

// replay hands what s reads to each. A page behind the first is read with a view of its own, see stream.page.
func (c *contracts) replay(ctx context.Context, o *observed, call annals.Call, s *stream, each func(annals.Event) error) error {
	for !s.ended {
		read := c.read
		if s.anchor > 0 {
			read = c.readTx
		}
		o.requests(1)
		if err := read(ctx, call, s.page); err != nil {
			return err
		}
		if err := s.hand(o, each); err != nil {
			return err
		}
	}
	return nil
}

// stream reads the events of one entity page by page.
type stream struct {
	id       annals.PersistenceID
	from, to annals.SeqNr
	anchor   annals.SeqNr // the last event of the pages before, 0 = none yet
	events   []annals.Event
	bytes    int
	ended    bool
}

// page reads the next page into s.events. A page behind the first begins with the event handed over last: since events
// are deleted in ascending order, nothing behind it is gone as long as it is there. Where it has gone, the next number
// tells; where that is missing as well, it was deleted meanwhile.
func (s *stream) page(ctx context.Context, q *statements) error {
	const text = `SELECT ` + eventColumns + ` FROM event_journal
		WHERE persistence_id = ? AND seq_nr >= ? AND seq_nr <= ? ORDER BY seq_nr LIMIT ?`
	s.events, s.bytes = s.events[:0], 0
	row := eventRow{Event: annals.Event{ID: s.id}}
	rows, next, anchored := 0, s.from, s.anchor == 0
	if !anchored {
		next = s.anchor + 1
	}
	err := q.rows(ctx, text, []any{string(s.id), int64(s.from), int64(s.to), pageRows + 1}, func(v *values) (bool, error) {
		if err := row.read(v); err != nil {
			return false, err
		}
		rows++
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
			return false, row.corrupt(errors.New("it is deleted, the one before it is not"))
		case row.SeqNr != next && begun:
			return false, row.corrupt(errors.New("the one before it is missing"))
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
	if complete && !anchored {
		last, err := q.lastSeqNr(ctx, s.id)
		if err != nil {
			return err
		}
		if last != s.anchor { // below: it has been forgotten
			return s.truncated()
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

// hand gives the page to each.
func (s *stream) hand(o *observed, each func(annals.Event) error) error {
	o.moved(len(s.events), s.bytes)
	for _, e := range s.events {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) truncated() error {
	return &annals.Error{ID: s.id, Kind: annals.ErrTruncated}
}
