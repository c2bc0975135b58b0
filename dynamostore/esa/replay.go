package esa

import (
	"context"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// reader returns the plan.Reads of the layout.
func (j *journal) reader(id annals.PersistenceID) driver.Reader {
	r := reader{j: j, id: id}
	if j.apart {
		return &apartReader{r}
	}
	return &r
}

// reader is a driver.Reader.
type reader struct {
	j       *journal
	id      annals.PersistenceID
	begun   bool            // the head has been read
	head    head            // as it was read last
	version annals.SeqNr    // of the head before rows were read
	event   [1]annals.Event // of the row that was read last
	seen    annals.SeqNr    // how many rows were read

	counted head         // as it was before the events were counted; without an item they were not
	events  annals.SeqNr // how many there are above those that are deleted
	unused  bool         // a library has left numbers unused, and no event is missing
}

func (r *reader) Begin(ctx context.Context, _ bool) (b driver.Beginning, err error) {
	r.head, b, err = r.j.snapshots.begin(ctx, r.j, r.id)
	r.begun = err == nil
	return b, err
}

// Rows is driver.Reader: the rows up to the version. When they are fewer than the head has counted, and none is lost, there are others above
// the version. Those are read through the index, and then the head again: it tells whether the last ones were deleted meanwhile.
func (r *reader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		if !r.begun {
			var err error
			if r.head, err = r.j.read(ctx, r.id); err != nil {
				yield(driver.Part{}, err)
				return
			}
		}
		h, p := r.head, numbered.Part{ID: r.id, From: max(from, r.head.deleted+1), To: to}
		if h.item == nil || !yield(driver.Part{Deleted: h.deleted}, nil) || p.From > to {
			return
		}
		r.version, r.seen = h.version, 0
		if !r.j.gaps && p.From-1 <= h.version {
			if !r.each(&p, r.upToVersion(ctx, p), yield) {
				return
			}
			if end := min(to, h.version); 0 < p.From && p.From <= end {
				if missing, err := r.missing(ctx, p.From, end); !yield(missing, err) || err != nil {
					return
				}
			}
			if !r.unused || p.From < 1 || p.From > to {
				return
			}
		}
		for { // events that were deleted meanwhile can hide later ones that the index does not have
			if !r.each(&p, r.j.complete(ctx, p, r.j.found(ctx, p)), yield) {
				return
			}
			if r.unused && to == annals.MaxSeqNr {
				r.j.ahead.Change(r.id, func(annals.SeqNr, bool) annals.SeqNr { return p.From - 1 - r.head.version })
			}
			if from == 1 && h.deleted == 0 && r.seen >= h.version {
				return // all that were stored before
			}
			now, err := r.j.read(ctx, r.id)
			tail := driver.Part{Deleted: now.deleted}
			if r.j.gaps {
				tail.Last = now.version
			}
			if !yield(tail, err) || err != nil || p.From < 1 || now.deleted < p.From || now.deleted >= to {
				return
			}
			p.From = now.deleted + 1
		}
	}
}

// each yields the events of rows, and moves the beginning of p behind the last one. It returns false when the read is to end.
func (r *reader) each(p *numbered.Part, rows iter.Seq2[plan.Item, error], yield func(driver.Part, error) bool) bool {
	for it, err := range rows {
		if err == nil {
			r.event[0], err = r.decode(it)
		}
		r.seen++
		p.From = r.event[0].SeqNr + 1 // negative after the greatest number
		if !yield(driver.Part{Events: r.event[:]}, err) || err != nil {
			return false
		}
	}
	return true
}

func (r *reader) decode(it plan.Item) (annals.Event, error) {
	e, err := r.j.event(r.id, it)
	if err == nil {
		r.j.times.Learn(r.id, e.Time)
	}
	return e, err
}

// missing looks at the numbers from … to, which had no rows, although the last one is the version.
func (r *reader) missing(ctx context.Context, from, to annals.SeqNr) (driver.Part, error) {
	p, err := r.Gap(ctx, from, to)
	if !r.unused {
		p.Last = r.head.version
	}
	return p, err
}

// upToVersion yields the rows up to the version, and those after it. The number after the version is always read: when a library has left numbers
// unused, there are events with numbers above the version.
func (r *reader) upToVersion(ctx context.Context, p numbered.Part) iter.Seq2[plan.Item, error] {
	end := min(r.head.version, annals.MaxSeqNr-1) + 1
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
	return plan.Picked(j.events.Ordered(p, j.x.Query(ctx, j.events.Query(p))), func(it plan.Item) (plan.Item, bool, error) {
		return it, j.events.OwnerOf(it) == p.ID && j.events.AtKey(p.ID, it), nil
	})
}

// disputed is how many missing numbers are looked at together with the head, which is one more item of a transaction.
const disputed = 99

// recounts is how often the events are counted while others write the entity.
const recounts = 16

// Gap is driver.Reader. The numbers were deleted meanwhile, were written after the rows were read, were left unused by a library, or are lost.
// The head has counted every event that was stored. So events are lost if there are fewer of them than the head has counted, while
// the numbers have no rows.
func (r *reader) Gap(ctx context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	if r.lax() && to < r.version {
		r.head, err = r.j.read(ctx, r.id)
		return driver.Part{Deleted: r.head.deleted, Unused: to, Proven: r.proven()}, err
	}
	end := min(to-from, disputed-1) + from
	for range recounts {
		p, err = r.together(ctx, from, end)
		h := r.head
		switch {
		case err != nil, p.Deleted >= from, len(p.Events) > 0 && p.Events[0].SeqNr == from:
			return p, err
		case r.lax():
		case r.counted.item == nil || r.counted.version != h.version || r.counted.deleted != h.deleted:
			if r.events, err = r.j.count(ctx, r.id, h); err != nil {
				return p, err
			}
			r.counted = h
			continue
		case r.events+h.deleted < h.version:
			return p, corrupt(h.item, &ability.Damage{Code: ability.Missing, From: from, To: to, Err: fmt.Errorf("%d events were stored, %d are deleted and there are %d; the first one that is missing is %d", h.version, h.deleted, r.events, from)})
		default:
			r.unused = true
		}
		if p.Unused, p.Proven = to, r.proven(); len(p.Events) > 0 {
			p.Unused = end
		}
		return p, nil
	}
	return p, &annals.Error{Kind: annals.ErrUnavailable, Err: fmt.Errorf("the events were counted %d times, and others were written meanwhile", recounts)}
}

// lax reports whether numbers without rows are unused unless they are deleted.
func (r *reader) lax() bool { return r.j.gaps || r.unused }

// proven reports whether the count proves that no event is lost. Where events are deleted, some of their numbers may have been unused.
func (r *reader) proven() bool {
	return r.unused && r.counted.deleted == 0 && r.events == r.counted.version
}

// together reads the head and the rows from … to as they are at one moment.
func (r *reader) together(ctx context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	key, err := r.j.headKey(r.id)
	if err != nil {
		return p, err
	}
	keys, err := r.j.events.Keys(r.id, from, to)
	if err != nil {
		return p, err
	}
	items, err := r.j.x.GetTogether(ctx, append([]plan.Get{{Table: r.j.heads, Key: key}}, plan.Gets(r.j.events.Name, keys)...))
	if err == nil {
		r.head, err = r.j.rows.head(r.id, items[0])
	}
	if err == nil && r.head.item == nil {
		err = r.j.lost(key)
	}
	if err != nil {
		return p, err
	}
	rows, err := r.j.events.At(r.id, from, keys, items[1:])
	p.Deleted = r.head.deleted
	for _, it := range rows {
		e, err := r.decode(it)
		if err != nil {
			return p, err
		}
		p.Events = append(p.Events, e)
	}
	return p, err
}

// count returns how many events of id there are above those that are deleted. The libraries can also store an event with number 0.
func (j *journal) count(ctx context.Context, id annals.PersistenceID, h head) (n annals.SeqNr, err error) {
	p := numbered.Part{ID: id, From: h.deleted + 1, To: annals.MaxSeqNr, Fields: []string{}}
	for _, err := range j.complete(ctx, p, j.found(ctx, p)) {
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
