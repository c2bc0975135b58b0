package pgstore

import (
	"context"
	"iter"
	"unsafe"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// The first page of a replay is small, for readers that stop early. Each further page has as many events as fit into pageBytes, by the
// average size of the events of the page before.
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
			events, err := r.read(ctx)
			if err != nil {
				yield(annals.Event{}, err)
				return
			}
			for i := range events {
				if !yield(events[i], nil) {
					return
				}
			}
		}
	}
}

// reader reads the events of one entity page by page. Call release at the end.
type reader struct {
	*view
	id        annals.PersistenceID
	next      annals.SeqNr // where the next page begins
	to        annals.SeqNr
	limit     int          // of the next page
	prev      annals.SeqNr // the last event of the page before, 0 at first
	ended     bool         // there are no more events
	overtaken bool         // a delete removed events between two pages
	sparse    bool         // the entity has a state: its events are numbered by revisions

	part   *part        // has the events that read returned last; nil at first
	answer *answer      // has the page that is being read; nil between pages
	last   annals.Event // of the events of the page that were read, without payloads
	events int          // of the page that were read
	bytes  int          // of their payloads
}

// release frees what the reader holds.
func (r *reader) release() {
	if r.answer != nil {
		r.answer.close()
	}
	if r.part != nil {
		r.part.free()
	}
}

// read returns the next events. They are valid until the next call.
func (r *reader) read(ctx context.Context) (events []annals.Event, err error) {
	if r.answer == nil && r.next > r.to {
		r.ended = true
		return nil, nil
	}
	err = driver.Fetch(ctx, func(ctx context.Context) (err error) {
		events, err = r.fetch(ctx)
		return err
	})
	return events, err
}

// fetch returns the next part of the page, or the first part of the next page. Between two pages events may have been deleted. Deletes
// take an entity's events from the first on, so as long as prev is there, none after it has been deleted. That is why a page begins with
// prev once more: a gap after prev is then one that the writer left.
func (r *reader) fetch(ctx context.Context) ([]annals.Event, error) {
	begins := r.answer == nil
	if begins {
		if err := r.query(ctx); err != nil {
			return nil, err
		}
	}
	events, more, err := r.answer.next(r.part)
	if err == nil {
		err = r.complete(ctx, events)
	}
	if err != nil {
		return nil, err
	}
	r.add(events)
	if begins && r.prev > 0 {
		if len(events) > 0 && events[0].SeqNr == r.prev {
			events = events[1:]
		} else if err := r.truncated(ctx, events); err != nil {
			return nil, err
		}
	}
	if !more {
		r.answer = nil
		r.note()
	}
	return events, nil
}

// query begins the next page.
func (r *reader) query(ctx context.Context) error {
	from := r.next
	if r.prev > 0 {
		from = r.prev
		r.limit++
	}
	driver.Count(ctx, annals.Result{Requests: 1})
	sql, args := r.s.sql.replay, []any{eventFormats, string(r.id), int64(from), r.limit}
	if r.to < annals.MaxSeqNr {
		sql, args = r.s.sql.replayTo, append(args, int64(r.to))
	}
	rows, err := r.reader().Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	size := partEvents
	if r.tx != nil {
		size = r.limit + 1 // more than there are: the caller may use the connection while it handles events
	}
	r.answer = &answer{size: size, left: r.limit, events: newEventDecoder(rows, r.id, nil)}
	r.last, r.events, r.bytes = annals.Event{}, 0, 0
	if r.part == nil {
		r.part = parts.Get().(*part)
	}
	return nil
}

// add counts events of the page.
func (r *reader) add(events []annals.Event) {
	for i := range events {
		r.bytes += len(events[i].Data) + len(events[i].Metadata.Data)
	}
	if n := len(events); n > 0 {
		r.events += n
		r.last = events[n-1]
		r.last.Data, r.last.Metadata.Data = nil, nil
	}
}

// note prepares the next page, at the end of a page.
func (r *reader) note() {
	r.ended = r.events < r.limit
	if r.events > 0 {
		r.prev, r.next = r.last.SeqNr, r.last.SeqNr+1
		r.limit = nextLimit(r.events, r.bytes)
	}
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
