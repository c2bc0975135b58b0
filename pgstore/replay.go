package pgstore

import (
	"context"
	"iter"
	"unsafe"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// A page is read whole before its first event is yielded. The first page is small, for readers that stop early. Each further page has as
// many events as fit into pageBytes, by the average size of the events of the page before.
const (
	firstPage  = 200
	pageBytes  = 8 << 20
	eventBytes = int(unsafe.Sizeof(annals.Event{})) // of an event without its payloads
)

func (s *backend) prepareReplay() {
	s.sql.replay = s.fill(`SELECT {events} FROM {journal} WHERE persistence_id = $1 AND seq_nr >= $2 AND NOT deleted ORDER BY seq_nr LIMIT $3`)
	s.sql.replayTo = s.fill(`SELECT {events} FROM {journal} WHERE persistence_id = $1 AND seq_nr >= $2 AND seq_nr <= $4 AND NOT deleted ORDER BY seq_nr LIMIT $3`)
}

// Replay implements annals.Journal.
func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		r := reader{view: j.view, id: id, next: from, to: to, limit: firstPage}
		defer r.release()
		for !r.ended {
			page, err := r.page(ctx)
			if err != nil {
				yield(annals.Event{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

// reader reads the events of one entity page by page.
type reader struct {
	*view
	id        annals.PersistenceID
	next      annals.SeqNr // where the next page begins
	to        annals.SeqNr
	limit     int            // of the next page
	prev      annals.SeqNr   // the last event of the page before, 0 at first
	ended     bool           // there are no more events
	overtaken bool           // a delete removed events between two pages
	sparse    bool           // the entity has a state: its events are numbered by revisions
	rows      []annals.Event // of the page, nil before the first; all events behind their length are zero
}

// release keeps the rows for another replay.
func (r *reader) release() { r.s.spare.put(r.rows) }

// page is the next events, valid until the next page. Between two pages events may have been deleted. Deletes take an
// entity's events from the first on, so as long as prev is there, none after it has been deleted. That is why a page begins with
// prev once more: a gap after prev is then one that the writer left.
func (r *reader) page(ctx context.Context) (page []annals.Event, err error) {
	if r.next > r.to {
		r.ended = true
		return nil, nil
	}
	err = driver.Fetch(ctx, func(ctx context.Context) (err error) {
		page, err = r.fetch(ctx)
		return err
	})
	return page, err
}

func (r *reader) fetch(ctx context.Context) (page []annals.Event, err error) {
	first, limit := r.next, r.limit
	if r.prev > 0 {
		first, limit = r.prev, limit+1
	}
	driver.Count(ctx, annals.Result{Requests: 1})
	sql, args := r.s.sql.replay, []any{eventFormats, string(r.id), int64(first), limit}
	if r.to < annals.MaxSeqNr {
		sql, args = r.s.sql.replayTo, append(args, int64(r.to))
	}
	rows, err := r.reader().Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	if r.rows == nil {
		r.rows = r.s.spare.take()
	}
	clear(r.rows)
	bytes := 0
	r.rows, bytes, err = appendEvents(r.rows[:0], limit, rows, newEventDecoder(rows, r.id, nil))
	if err == nil {
		err = r.complete(ctx, r.rows)
	}
	if err != nil {
		return nil, err
	}
	page = r.rows
	if r.prev > 0 {
		if len(page) > 0 && page[0].SeqNr == r.prev {
			page = page[1:]
		} else if err := r.truncated(ctx, page); err != nil {
			return nil, err
		}
	}
	r.note(page, len(r.rows) < limit, bytes)
	return page, nil
}

// note prepares the next page, after page.
func (r *reader) note(page []annals.Event, ended bool, bytes int) {
	if len(page) > 0 {
		r.prev = page[len(page)-1].SeqNr
		r.next = r.prev + 1
		r.limit = nextLimit(len(page), bytes)
	}
	r.ended = ended
}

// truncated says what it means that the last event of the page before has been deleted: ErrTruncated, unless the delete went no
// further than to that event.
func (r *reader) truncated(ctx context.Context, page []annals.Event) error {
	if len(page) > 0 && page[0].SeqNr == r.prev+1 {
		return nil
	}
	if len(page) == 0 {
		driver.Count(ctx, annals.Result{Requests: 1})
		if last, err := r.s.lastSeqNr(ctx, r.reader(), r.id); err != nil || last == r.prev {
			return err
		}
	}
	return &annals.Error{Kind: annals.ErrTruncated}
}

// nextLimit is how many events the page after one of so many events and bytes of payloads may have.
func nextLimit(events, bytes int) int {
	return max(pageBytes/(eventBytes+bytes/events), 1)
}
