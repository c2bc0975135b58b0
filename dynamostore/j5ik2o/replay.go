package j5ik2o

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// reader is a driver.Reader. Rows are deleted in ascending order: if a row that was read exists, and is not deleted, after the rows behind it were
// looked for, then none of these was deleted. With hard deletes rows are removed, but never the newest.
type reader struct {
	*journal
	id       annals.PersistenceID
	recovers bool
	event    [1]annals.Event // the last one

	before   row  // the last one that is not deleted, or else the last one, before at
	at       row  // the row that was read last
	lost     bool // numbers between before and at had events
	unproven bool // numbers between before and at have no rows
}

// row is a row that was read.
type row struct {
	plan.Item      // nil: none
	live      bool // it is not flagged as deleted
}

// Begin is driver.Reader. A search that need not be sure reads once.
func (r *reader) Begin(ctx context.Context, sure bool) (b driver.Beginning, err error) {
	r.recovers = true
	switch {
	case r.snapshots == nil:
		b.Settled = annals.MaxSeqNr
	case sure:
		b.Snapshot, b.Found, err = r.snapshots.Latest(ctx, r.id, annals.SnapshotCriteria{})
	default:
		b.Snapshot, b.Found, err = r.snapshots.look(ctx, r.id)
	}
	return b, err
}

func (r *reader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		r.before, r.at = row{}, row{}
		defer func() { r.times.Learn(r.id, r.event[0].Time) }()
		for it, err := range r.rows.read(ctx, numbered.Part{ID: r.id, From: from, To: to}) {
			var p driver.Part
			if err == nil {
				p, err = r.part(ctx, it, from)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
		if err := r.end(ctx, from, to); err != nil {
			yield(driver.Part{}, err)
		}
	}
}

// part returns what a row says.
func (r *reader) part(ctx context.Context, it plan.Item, from annals.SeqNr) (p driver.Part, err error) {
	e, live, err := r.journal.event(it)
	if err != nil {
		return p, err
	}
	if r.at.Item == nil && from == 1 && e.SeqNr > 1 {
		if err := r.rows.fits(ctx, r.id); err != nil {
			return p, err
		}
	}
	if r.at.live || !r.before.live {
		r.before, r.lost, r.unproven = r.at, false, false
	}
	r.judge(r.at.Item, it)
	switch r.at = (row{it, live}); {
	case live:
		r.event[0] = e
		p.Events = r.event[:]
	case r.before.live:
		p.Last = e.SeqNr
	default:
		p.Deleted = e.SeqNr
	}
	return p, nil
}

// end is called after the last row. It returns ErrTruncated if hard deletes may have removed rows that were not read.
func (r *reader) end(ctx context.Context, from, to annals.SeqNr) error {
	stand := true
	switch {
	case r.at.Item == nil && (from == 1 || r.recovers):
		if err := r.rows.fits(ctx, r.id); err != nil || !r.recovers || !r.hard {
			return err
		}
		last, _, err := r.rows.newest(ctx, r.id)
		if err != nil {
			return err
		}
		stand = last < from
	case r.hard && r.at.live && r.rows.NumberOf(r.at.Item) < to:
		var err error
		if stand, err = r.exists(ctx, r.at); err == nil && !stand {
			stand, err = r.last(ctx)
		}
		if err != nil {
			return err
		}
	}
	if !stand {
		return &annals.Error{Kind: annals.ErrTruncated}
	}
	return nil
}

// last reports whether the event that was read last, which is deleted now, is the last one that is deleted.
func (r *reader) last(ctx context.Context) (bool, error) {
	n := r.rows.NumberOf(r.at.Item)
	it, ok, err := plan.First(r.rows.read(ctx, numbered.Part{ID: r.id, From: n + 1, To: annals.MaxSeqNr, Limit: 1}))
	if err != nil {
		return false, err
	}
	if ok {
		e, live, err := r.journal.event(it)
		return live && e.SeqNr == n+1, err
	}
	return r.exists(ctx, row{Item: r.at.Item}) // the newest row is never removed
}

// Gap is driver.Reader. Rows has looked for the numbers by key.
func (r *reader) Gap(ctx context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	if r.before.Item == nil && from > 1 {
		it, ok, err := plan.First(r.rows.read(ctx, numbered.Part{ID: r.id, From: 1, To: from - 1, Backward: true, Limit: 1}))
		if err != nil {
			return p, err
		}
		if ok {
			r.before = row{it, !plan.Flag(it, r.columns.Deleted)}
			r.judge(it, r.at.Item)
		}
	}
	switch exists, err := r.exists(ctx, r.before); {
	case err != nil:
		return p, err
	case !exists, r.hard && !r.before.live:
		p.Deleted = to
	case !r.lost:
		p.Unused, p.Proven = to, !r.unproven
	}
	return p, nil
}

// exists reports whether a row still exists, and is not deleted since it was read. In front of all rows numbers are deleted only by hard deletes.
func (r *reader) exists(ctx context.Context, read row) (bool, error) {
	if read.Item == nil {
		r.unproven = true
		return !r.hard, nil
	}
	it, ok, err := r.rows.x.Get(ctx, plan.Get{Table: r.rows.Name, Key: r.rows.KeyOf(read.Item)})
	return ok && !(read.live && plan.Flag(it, r.columns.Deleted)), err
}

// judge notes what it means that there are no rows between a and b, the next row. A writer of the plugin leaves the number of an event unused that
// cannot be serialized, and writes on with the same writer id. Each commit of this package has a writer id of its own, and its events have one
// time. An update in place removes the writer id of a row.
func (r *reader) judge(a, b plan.Item) {
	if a == nil || r.rows.NumberOf(b) <= r.rows.NumberOf(a)+1 {
		return
	}
	first, second := r.writer(a), r.writer(b)
	if first == "" || second == "" || first == second && !millis(a, r.columns.Ordering).Equal(millis(b, r.columns.Ordering)) {
		r.unproven = true
	} else {
		r.lost = true
	}
}
