package pgstore

import (
	"context"
	"iter"
	"unsafe"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// The first page of a replay is small, for callers that stop early. Each further page has as many events as fit into pageBytes, by the
// average size of the events of the page before. A page whose events are larger ends behind keptBytes.
const (
	firstPage  = 200
	pageBytes  = 8 << 20
	keptBytes  = 4 * pageBytes
	eventBytes = int(unsafe.Sizeof(annals.Event{})) // of an event without its payloads
)

const (
	replayFrom = `SELECT ` + eventColumns + ` FROM "event_journal" WHERE persistence_id = $1 AND seq_nr >= $2 AND NOT deleted ORDER BY seq_nr LIMIT $3`
	replayTo   = `SELECT ` + eventColumns + ` FROM "event_journal" WHERE persistence_id = $1 AND seq_nr >= $2 AND seq_nr <= $4 AND NOT deleted ORDER BY seq_nr LIMIT $3`
)

func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return driver.Replay(ctx, &replay{view: j.view, id: id, limit: firstPage}, from, to)
}

// replay is a driver.Reader. A delete leaves a row with the last number that it deletes, flagged as deleted. All rows before it are
// deleted, too.
type replay struct {
	*view
	id    annals.PersistenceID
	limit int // of the next page

	answer *answer // has the page that is being read; nil between pages
	part   *part   // has the events that were read last
	events int     // of the page that were read
	bytes  int     // of their payloads
	cut    bool    // the page may have had more
}

func (r *replay) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		r.pages(ctx, from, to, false, yield)
	}
}

// pages yields the events from … to, page by page. again says that rows before from have been read.
func (r *replay) pages(ctx context.Context, from, to annals.SeqNr, again bool, yield func(driver.Part, error) bool) {
	r.part = parts.Get().(*part)
	defer func() {
		if r.answer != nil {
			r.answer.close()
			r.answer = nil // a recovery may begin again
		}
		r.part.free()
	}()
	begun := 0
	for next := from; next <= to; {
		var p driver.Part
		more := false
		err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
			if r.answer == nil {
				begun++
			}
			if begun > 2 && to == annals.MaxSeqNr { // what is written later is left out: a caller that writes as much as it reads comes to an end
				last, err := r.s.lastSeqNr(ctx, r.reader(ctx), r.id)
				if err != nil {
					return err
				}
				to = max(last, next)
			}
			p, more, err = r.next(ctx, next, to, again)
			return err
		})
		if n := len(p.Events); n > 0 {
			next, again = p.Events[n-1].SeqNr+1, true
		}
		if !yield(p, err) || err != nil || !more {
			return
		}
	}
}

// next returns the next events of the page, or of the next page, which begins with from. more is false with the last page. A page without
// events may follow deletes, so the last number is read, too.
func (r *replay) next(ctx context.Context, from, to annals.SeqNr, again bool) (p driver.Part, more bool, err error) {
	if r.answer == nil {
		if err := r.query(ctx, from, to); err != nil {
			return p, false, err
		}
	}
	if p.Events, more, err = r.answer.next(r.part); err != nil {
		return driver.Part{}, false, err
	}
	r.count(p.Events)
	switch {
	case more:
	case r.events == 0 && again:
		r.answer = nil
		if p.Last, err = r.s.lastSeqNr(ctx, r.reader(ctx), r.id); err == nil && p.Last < from-1 {
			err = &annals.Error{Kind: annals.ErrTruncated} // the entity was forgotten
		}
	default:
		r.cut = r.answer.cut
		r.answer = nil
		more = r.full()
	}
	return p, more, err
}

// query begins the next page.
func (r *replay) query(ctx context.Context, from, to annals.SeqNr) error {
	sql, args := r.s.sql.replay, []any{eventFormats, string(r.id), int64(from), r.limit}
	if to < annals.MaxSeqNr {
		sql, args = r.s.sql.replayTo, append(args, int64(to))
	}
	rows, err := r.reader(ctx).Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	// In a transaction the caller may use the connection while it handles events.
	r.answer = &answer{whole: r.tx != nil, left: r.limit, events: newEventDecoder(rows, r.id, nil)}
	r.events, r.bytes = 0, 0
	return nil
}

// count counts events of the page.
func (r *replay) count(events []annals.Event) {
	for i := range events {
		r.bytes += payloads(&events[i])
	}
	r.events += len(events)
}

// full reports, at the end of a page, whether there can be another page, and prepares it.
func (r *replay) full() bool {
	if r.events < r.limit && !r.cut {
		return false
	}
	r.limit = max(pageBytes/(eventBytes+r.bytes/r.events), 1)
	return true
}
