package query

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// EventsOf yields the events from ≤ SeqNr ≤ to of one entity, in order: those that are there, then new ones as they come. It ends after
// to, with ctx, or as Options.Current says. Deleted numbers are left out, with Options.OnSkip. An error comes once, last, and is one that
// Feed.Next returns. It reads the journal only, so Options.Window has no meaning.
func EventsOf(ctx context.Context, s annals.Store, id annals.PersistenceID, from, to annals.SeqNr, o Options) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		o, err := o.withDefaults(s)
		if err != nil {
			yield(annals.Event{}, &annals.Error{Op: "follow an entity", ID: id, Kind: annals.ErrInvalid, Err: err})
			return
		}
		ctx, end := context.WithCancel(ctx) // ends the watch
		defer end()
		f := annals.Filter{Type: id.Type(), Slices: annals.SliceRange{From: id.Slice(), To: id.Slice() + 1}}
		one := oneEntity{journal: s.Journal(), id: id, next: max(from, 1), to: to, options: o}
		if one.next > to {
			return
		}
		waker := newWaker(s, f, o)
		if err := waker.keepLooking(ctx, func() (bool, error) {
			return one.look(ctx, func(e annals.Event, err error) bool { waker.found++; return yield(e, err) })
		}); err != nil {
			yield(annals.Event{}, err)
		}
	}
}

// oneEntity is a query over one entity.
type oneEntity struct {
	journal  annals.Journal
	id       annals.PersistenceID
	next, to annals.SeqNr
	options  Options
}

// look reads once to the end. It returns whether the query ends there, which is also when yield has returned false.
func (q *oneEntity) look(ctx context.Context, yield func(annals.Event, error) bool) (ended bool, err error) {
	if q.options.Current || q.to < annals.MaxSeqNr { // asked before the events, so that all events to it are found
		last, err := q.journal.LastSeqNr(ctx, q.id)
		if err != nil {
			return false, err
		}
		if q.options.Current {
			q.to = min(q.to, last)
		}
		ended = last >= q.to
	}
	for e, err := range q.journal.Replay(ctx, q.id, q.next, q.to) {
		if err != nil {
			return false, err
		}
		q.skip(e.SeqNr - 1)
		q.next = e.SeqNr + 1
		if !yield(e, nil) || e.SeqNr == q.to {
			return true, nil
		}
	}
	if ended {
		q.skip(q.to)
	}
	return ended, nil
}

// skip reports the numbers up to to as not found.
func (q *oneEntity) skip(to annals.SeqNr) {
	if q.next <= to {
		q.options.OnSkip(q.id, q.next, to)
		q.next = to + 1
	}
}
