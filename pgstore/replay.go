package pgstore

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/annals-go/annals"
)

// A page is read whole before its first event is handed over. Pages start small, for readers that break off early,
// and grow to what their events' size allows.
const (
	firstPage   = 200
	largestPage = 4096
	pageBytes   = 4 << 20
)

func (s *Store) prepareReplay() {
	s.sql.replay = s.fill(`SELECT {events} FROM {journal} WHERE persistence_id = $1 AND seq_nr >= $2 AND seq_nr <= $3 AND NOT deleted ORDER BY seq_nr LIMIT $4`)
}

func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		if err := validRead("replay", id); err != nil {
			yield(annals.Event{}, err)
			return
		}
		r := reader{view: j.view, op: "replay", id: id, next: max(from, 1), to: to, limit: firstPage, rows: *pageRows.Get().(*[]annals.Event)}
		defer r.release()
		for !r.ended {
			page, err := r.page(ctx)
			for i := range page {
				if err = ctx.Err(); err != nil {
					err = fault("replay", id, err)
					break
				}
				if !yield(page[i], nil) {
					return
				}
			}
			if err != nil {
				yield(annals.Event{}, err)
				return
			}
		}
	}
}

// reader reads the events of one entity page by page.
type reader struct {
	view
	op        string
	id        annals.PersistenceID
	next      annals.SeqNr // where the next page begins
	to        annals.SeqNr
	limit     int            // of the next page
	prev      annals.SeqNr   // the last event of the page before, 0 at first
	ended     bool           // there are no more events
	overtaken bool           // by a delete, between two pages
	sparse    bool           // the entity has a state: its events are numbered by revisions
	rows      []annals.Event // of the page, reused
	most      int            // rows of a page so far
}

// pageRows are the rows of readers that have ended. A long page has nearly a megabyte of them, besides the payloads.
var pageRows = sync.Pool{New: func() any { return new([]annals.Event) }}

// release gives the rows back.
func (r *reader) release() {
	clear(r.rows[:r.most])
	rows := r.rows[:0]
	pageRows.Put(&rows)
}

// page is the next events, valid until the next page. Between two pages events may have been deleted: deletes take an
// entity's events from the first on, so none behind prev is gone as long as prev is there. That is why a page begins with
// prev once more: a gap behind it is then one that the writer left.
func (r *reader) page(ctx context.Context) (page []annals.Event, err error) {
	if r.next > r.to {
		r.ended = true
		return nil, nil
	}
	c, err := r.begin(ctx, r.op, r.id, 0)
	if err != nil {
		return nil, err
	}
	defer c.end(&err)
	first, limit := r.next, r.limit
	if r.prev > 0 {
		first, limit = r.prev, limit+1
		r.rows = slices.Grow(r.rows[:0], limit) // the page before was full: this one may be as well
	}
	rows, err := r.reader().Query(c.ctx, r.s.sql.replay, eventFormats, string(r.id), int64(first), int64(r.to), limit)
	if err != nil {
		return nil, err
	}
	r.rows, err = appendEvents(r.rows[:0], rows, &c.result)
	r.most = max(r.most, len(r.rows))
	if err == nil {
		err = r.complete(c, r.rows)
	}
	if err != nil {
		return nil, err
	}
	page = r.rows
	if r.prev > 0 {
		if len(page) > 0 && page[0].SeqNr == r.prev {
			page = page[1:]
		} else if err := r.truncated(c, page); err != nil {
			return nil, err
		}
	}
	r.read(page, len(r.rows) < limit, c.result)
	return page, nil
}

// read notes what a page brought.
func (r *reader) read(page []annals.Event, ended bool, result annals.Result) {
	if len(page) > 0 {
		r.prev = page[len(page)-1].SeqNr
		r.next = r.prev + 1
	}
	r.ended = ended
	r.limit = nextLimit(result)
}

// truncated decides what it means that the last event of the page before is gone: ErrTruncated, unless the delete went no
// further than to that event.
func (r *reader) truncated(c *call, page []annals.Event) error {
	if len(page) > 0 && page[0].SeqNr == r.prev+1 {
		return nil
	}
	if len(page) == 0 {
		if last, err := r.s.lastSeqNr(c.ctx, r.reader(), r.id); err != nil || last == r.prev {
			return err
		}
	}
	return &annals.Error{Op: r.op, ID: r.id, Kind: annals.ErrTruncated}
}

// nextLimit is how many events a page may have when they go on as they did.
func nextLimit(r annals.Result) int {
	size := max(r.Bytes/max(r.Events, 1), 1)
	return min(max(pageBytes/size, 1), largestPage)
}
