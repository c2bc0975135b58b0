package headed

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Replay is annals.Journal.
func (j *journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		h, err := j.read(ctx, id)
		if err != nil {
			yield(annals.Event{}, err)
			return
		}
		j.replay(ctx, &replay{id: id, from: from, to: to, head: h}, yield)
	}
}

// replay is a replay in progress.
type replay struct {
	j        *journal
	id       annals.PersistenceID
	from, to annals.SeqNr // events to yield
	head     head         // as it was read before the rows that are worked on
	whole    bool         // numbers may be missing before the first event only if they are deleted
	unused   bool         // a library has left numbers unused, and no event is missing
	next     annals.SeqNr // the number after the last event
	last     annals.SeqNr // the number of the last event; 0 before the first
	yield    func(annals.Event, error) bool
}

// errLeft ends a replay whose caller has left the loop.
var errLeft = errors.New("the replay has been left")

// replay yields the events of r, and reports whether all of them were yielded.
func (j *journal) replay(ctx context.Context, r *replay, yield func(annals.Event, error) bool) bool {
	r.j, r.yield = j, yield
	err := r.run(ctx)
	if err != nil && !errors.Is(err, errLeft) {
		yield(annals.Event{}, err)
	}
	return err == nil
}

func (r *replay) run(ctx context.Context) error {
	if r.head.item == nil || r.from < 1 { // from is negative in a recovery from a snapshot with the highest number
		return nil
	}
	if r.next = max(r.from, r.head.deleted+1); r.next > r.to {
		return nil
	}
	known := !r.j.gaps && r.next <= r.head.version+1
	rows := r.indexed
	if known {
		rows = r.known
	}
	err := r.all(ctx, rows)
	if err == nil && known && r.unused {
		err = r.all(ctx, r.indexed) // there are events with numbers above the version
	}
	if err == nil && r.unused && r.to == annals.MaxSeqNr {
		r.j.ahead.Change(r.id, func(annals.SeqNr, bool) annals.SeqNr { return r.last - r.head.version })
	}
	return err
}

// all takes the rows from r.next on.
func (r *replay) all(ctx context.Context, rows func(context.Context, numbered.Part) iter.Seq2[plan.Item, error]) error {
	if r.next > r.to {
		return nil
	}
	for it, err := range rows(ctx, numbered.Part{ID: r.id, From: r.next, To: r.to}) {
		if err == nil {
			err = r.take(ctx, it)
		}
		if err != nil {
			return err
		}
	}
	if end := min(r.to, r.head.version); r.next <= end {
		return r.missing(ctx, end)
	}
	return nil
}

// indexed yields the rows that the index has, and the rows that it does not have yet.
func (r *replay) indexed(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	return r.j.complete(ctx, p)
}

// known yields the rows up to the version, and those after it. The number after the version is always read: when a library has left numbers
// unused, there are events with numbers above the version.
func (r *replay) known(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	end := r.head.version + 1
	return func(yield func(plan.Item, error) bool) {
		var last annals.SeqNr
		for it, err := range r.j.between(ctx, numbered.Part{ID: p.ID, From: p.From, To: min(p.To, end)}, end) {
			if err == nil {
				last = r.j.events.NumberOf(it)
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
		if last == end {
			p.From = end + 1
			r.j.events.Complete(ctx, r.j.x, p, none, true)(yield)
		}
	}
}

func none(func(plan.Item, error) bool) {}

// found yields the rows that the index has. Rows at other keys than those of p.ID are left out: with the form Value another id can have the same
// aggregate id.
func (j *journal) found(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for it, err := range j.events.Ordered(p, j.x.Query(ctx, j.events.Query(p))) {
			if err == nil && (j.events.OwnerOf(it) != p.ID || !j.events.AtKey(p.ID, it)) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// take yields the event of the next row.
func (r *replay) take(ctx context.Context, it plan.Item) error {
	n := r.j.events.NumberOf(it)
	if n < r.next {
		return nil // read by key meanwhile
	}
	if n > r.next {
		if err := r.missing(ctx, n-1); err != nil {
			return err
		}
	}
	e, err := r.j.event(r.id, it)
	if err != nil {
		return err
	}
	r.next, r.last = n+1, n
	r.j.times.Learn(r.id, e.Time)
	if !r.yield(e, nil) {
		return errLeft
	}
	return nil
}

// disputed is how many missing numbers are looked at together with the head, which is one more item of a transaction.
const disputed = 99

// missing judges the numbers from r.next to to, which have no rows. They were deleted meanwhile, were written after the rows were read, were
// left unused by a library, or are lost. The head has counted every event that was stored. So events are lost if there are fewer of them
// than the head has counted, while the numbers have no rows.
func (r *replay) missing(ctx context.Context, to annals.SeqNr) error {
	if to < min(r.to, r.head.version) && (r.j.gaps || r.last == 0 && !r.whole) {
		return nil // a row follows, and numbers may be missing before the first event
	}
	var counted *head // the head before the events were counted
	var events annals.SeqNr
	for {
		h, found, err := r.together(ctx, to)
		if err != nil {
			return err
		}
		r.head = h
		for _, it := range found {
			if err := r.take(ctx, it); err != nil {
				return err
			}
		}
		if h.deleted >= r.next {
			if r.last > 0 {
				return &annals.Error{Kind: annals.ErrTruncated}
			}
			r.next = h.deleted + 1
		}
		switch {
		case r.next > to || r.j.gaps || r.unused:
			return nil
		case len(found) > 0:
			continue
		case counted != nil && counted.version == h.version && counted.deleted == h.deleted:
			if events+h.deleted < h.version {
				return corrupt(h.item, fmt.Errorf("%d events were stored, %d are deleted and there are %d; the first one that is missing is %d", h.version, h.deleted, events, r.next))
			}
			r.unused = true
			return nil
		}
		if events, err = r.j.count(ctx, r.id, h); err != nil {
			return err
		}
		counted = &h
	}
}

// together reads the head and rows from r.next to to as they are at one moment.
func (r *replay) together(ctx context.Context, to annals.SeqNr) (h head, found []plan.Item, err error) {
	key, err := r.j.key(r.id, 0)
	if err != nil {
		return head{}, nil, err
	}
	gets := []plan.Get{{Table: r.j.heads, Key: key}}
	for n := r.next; n <= to && len(gets) <= disputed; n++ {
		if key, err = r.j.key(r.id, n); err != nil {
			return head{}, nil, err
		}
		gets = append(gets, plan.Get{Table: r.j.events.Name, Key: key})
	}
	items, err := r.j.x.GetTogether(ctx, gets)
	if err != nil {
		return head{}, nil, err
	}
	for _, it := range items[1:] {
		if it != nil && r.j.events.OwnerOf(it) == r.id {
			found = append(found, it)
		}
	}
	h, err = r.j.head(items[0])
	return h, found, err
}

// count returns how many events of id there are above those that are deleted. The libraries can also store an event with number 0.
func (j *journal) count(ctx context.Context, id annals.PersistenceID, h head) (n annals.SeqNr, err error) {
	p := numbered.Part{ID: id, From: h.deleted + 1, To: annals.MaxSeqNr, Fields: []string{}}
	for _, err := range j.events.Complete(ctx, j.x, p, j.found(ctx, p), true) {
		if err != nil {
			return 0, err
		}
		n++
	}
	if n+h.deleted >= h.version {
		return n, nil
	}
	key, err := j.key(id, 0)
	if err != nil {
		return 0, err
	}
	if _, zero, err := j.x.Get(ctx, plan.Get{Table: j.events.Name, Key: key}); zero || err != nil {
		return n + 1, err
	}
	return n, nil
}
