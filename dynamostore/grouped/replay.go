package grouped

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Replay is annals.Journal.
func (j *journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return j.replay(ctx, replay{id: id, from: from, to: to, begin: from}, nil)
}

// Store is a *dynamostore.Store with this layout, or the store inside one of its transactions.
type Store interface{ plan.Runner }

// ReplayLimit is the plugin's replay with a limit: it takes the first limit of the stored events of id from … to, and yields those of them
// that are not of a batch that is incomplete, because of the limit or because events of it were never stored. So there can be
// fewer than limit events although more follow. A limit that is not positive yields nothing.
func ReplayLimit(ctx context.Context, s Store, id annals.PersistenceID, from, to annals.SeqNr, limit int) iter.Seq2[annals.Event, error] {
	return plan.Each(ctx, s, plan.Function{Op: "replay", ID: id}, func(ctx context.Context, c plan.Contracts, _ plan.Executor) iter.Seq2[annals.Event, error] {
		j, err := plan.JournalOf[*journal](c)
		if err != nil || limit < 1 {
			return func(yield func(annals.Event, error) bool) {
				if err != nil {
					yield(annals.Event{}, err)
				}
			}
		}
		return j.replay(ctx, replay{id: id, from: max(from, 1), to: to, begin: max(from, 1), limit: limit}, nil)
	})
}

// replay is a replay in progress.
type replay struct {
	j        *journal
	id       annals.PersistenceID
	from, to annals.SeqNr // events to yield
	begin    annals.SeqNr // the first number to read: from, or the one before
	limit    int          // of stored events; 0 is none
	lasts    bool         // at the end of the replay the marks must tell the last number of an entity without further events
	marks
	fresh   bool // marks.low was read after the rows that are worked on
	batches batches
	next    annals.SeqNr // the number after the last row
	before  row          // the last row
	begun   bool         // there was a row
	shown   annals.SeqNr // the number of the last event yielded; 0 before the first
	counted int          // rows from … to
	paged   bool         // a group had several pages
	yield   func(annals.Event, error) bool
}

// errLeft ends a replay whose caller has left the loop, or has got as many events as it wants.
var errLeft = errors.New("the replay has been left")

// replay yields the events of r. ended, when not nil, is called when all of them were yielded.
func (j *journal) replay(ctx context.Context, r replay, ended func(*replay)) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		if r.from < 1 {
			return // a recovery from a snapshot with the highest number
		}
		r := r
		r.j, r.yield = j, yield
		err := r.run(ctx)
		if err != nil && !errors.Is(err, errLeft) {
			yield(annals.Event{}, err)
		}
		if err == nil && ended != nil {
			ended(&r)
		}
	}
}

// run reads the rows, group after group, and yields their events. Groups are read in parallel, so a group can be read before events are written
// to it, and the next group after. Rows that are missing before a group are therefore read again: whatever is written in front of a
// row is written before that row.
func (r *replay) run(ctx context.Context) error {
	begun, err := r.j.marks(ctx, r.id)
	if err != nil {
		return err
	}
	r.marks, r.batches.low, r.next = begun, begun.low, max(r.begin, begun.low)
	for p, err := range r.j.read(ctx, r.id, span{from: r.next, to: r.to, high: r.high, most: mostEmpty}) {
		switch {
		case errors.Is(err, errEmpty):
			return r.emptied(ctx, begun, err)
		case err != nil:
			return err
		}
		r.fresh, r.paged = false, r.paged || !p.last
		for i, w := range p.rows {
			if i == 0 && w.n > r.next && p.group > groupOf(r.next) {
				if err := r.again(ctx, annals.SeqNr(p.group*perGroup)-1); err != nil {
					return err
				}
			}
			if err := r.take(ctx, w); err != nil {
				return err
			}
		}
	}
	return r.end(ctx)
}

// again reads rows up to a number once more.
func (r *replay) again(ctx context.Context, to annals.SeqNr) error {
	for p, err := range r.j.read(ctx, r.id, span{from: r.next, to: to, high: to, most: mostEmpty}) {
		if err != nil {
			return err
		}
		r.fresh = false
		for _, w := range p.rows {
			if err := r.take(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// emptied returns the error of many groups without events: they were deleted while they were read, or err. before are the marks with which the
// replay began. When no event was yielded, it begins anew.
func (r *replay) emptied(ctx context.Context, before marks, err error) error {
	now, failed := r.j.marks(ctx, r.id)
	switch {
	case failed != nil:
		return failed
	case now == before:
		return err
	case r.shown > 0:
		return &annals.Error{Kind: annals.ErrTruncated}
	}
	anew := replay{j: r.j, id: r.id, from: r.from, to: r.to, begin: r.begin, limit: r.limit, lasts: r.lasts, yield: r.yield}
	err = anew.run(ctx)
	*r = anew
	return err
}

// take works on the next row.
func (r *replay) take(ctx context.Context, w row) error {
	if w.n > r.next {
		if err := r.gap(ctx, w); err != nil {
			return err
		}
	}
	if !r.begun && w.first < r.begin {
		if err := r.widen(ctx, w.first); err != nil {
			return err
		}
	}
	r.before, r.begun, r.next = w, true, w.n+1
	if err := r.show(r.batches.add(w)); err != nil {
		return err
	}
	if w.n >= r.from {
		r.counted++
	}
	if r.counted == r.limit && r.limit > 0 {
		return errLeft
	}
	return nil
}

// batchFields are the attributes of rows that only complete a batch.
var batchFields = []string{attrPar, attrNum, attrIndex, attrCount}

// widen reads the first rows of a batch, which are in front of r.begin.
func (r *replay) widen(ctx context.Context, first annals.SeqNr) error {
	for p, err := range r.j.read(ctx, r.id, span{from: max(first, r.low), to: r.begin - 1, high: r.begin, most: mostEmpty, fields: batchFields}) {
		if err != nil {
			return err
		}
		for _, w := range p.rows {
			r.batches.add(w)
		}
	}
	return nil
}

// gap judges numbers without rows in front of w. Rows are deleted in ascending order, after the mark was set. So when a delete has removed them,
// the mark is above the last event yielded.
func (r *replay) gap(ctx context.Context, w row) error {
	if err := r.refresh(ctx); err != nil || r.shown == 0 {
		return err
	}
	if r.low > r.shown+1 {
		return &annals.Error{Kind: annals.ErrTruncated}
	}
	return r.hole(ctx, r.before, w)
}

// hole returns ErrCorrupt for numbers that are missing between two rows, unless a writer of the plugin has left them unused. They can be of an
// incomplete batch of which one of the rows is the rest. When only the marker of a batch was stored, the next writer begins behind that
// marker. And the plugin leaves the numbers of events unused that cannot be stored. Its writers have one id for many commits, while each
// commit of this package has its own.
func (r *replay) hole(ctx context.Context, a, b row) error {
	from, to := max(a.n, a.last)+1, min(b.n, b.first)-1
	_, first := owner(a.item)
	_, second := owner(b.item)
	if r.j.gaps || from > to || to%perGroup == 0 || first == "" || second == "" || first == second {
		return nil
	}
	for _, beside := range []struct {
		n      annals.SeqNr
		writer string
	}{{a.first - 1, first}, {b.last + 1, second}} {
		it, _, err := r.j.x.Get(ctx, plan.Get{Table: r.j.table, Key: r.j.key(r.id, beside.n)})
		if err != nil {
			return err
		}
		if _, writer := owner(it); writer == beside.writer {
			return nil
		}
	}
	return r.j.corrupt(b.item, fmt.Errorf("event %d is followed by %d", a.n, b.n))
}

// refresh reads the mark of the lowest number again, unless it was read after the rows that are worked on.
func (r *replay) refresh(ctx context.Context) error {
	if r.fresh {
		return nil
	}
	low, err := r.j.lowMark(ctx, r.id)
	if err != nil {
		return err
	}
	r.low, r.batches.low, r.fresh = max(r.low, low), max(r.low, low), true
	return nil
}

// show yields the events of rows, as far as they were asked for.
func (r *replay) show(rows []row) error {
	for _, w := range rows {
		if w.n < r.from || w.n > r.to {
			continue
		}
		e, live, err := r.j.event(r.id, w)
		if err != nil {
			return err
		}
		if !live {
			continue
		}
		if !r.yield(e, nil) {
			return errLeft
		}
		r.shown = w.n
	}
	return nil
}

// end yields what is left, and then looks whether events behind the last row have been deleted during the replay. There are none if the row is in
// the highest marked group and was read together with what is behind it: a delete removes an entity's last event after all others.
func (r *replay) end(ctx context.Context) error {
	if err := r.complete(ctx); err != nil {
		return err
	}
	if r.begun && r.to == annals.MaxSeqNr {
		r.j.learn(r.id, max(r.before.n, r.high), r.high)
		if groupOf(r.before.n) >= groupOf(r.high) && !r.paged {
			return nil
		}
	}
	if r.shown == r.to || r.shown == 0 && !r.lasts {
		return nil
	}
	r.fresh = false
	if err := r.refresh(ctx); err != nil {
		return err
	}
	if r.shown > 0 && r.low > r.shown+1 {
		return &annals.Error{Kind: annals.ErrTruncated}
	}
	return nil
}

// complete reads the rest of the batch in which r.to is.
func (r *replay) complete(ctx context.Context) error {
	last := r.batches.unfinished()
	if last <= r.to {
		return nil
	}
	for p, err := range r.j.read(ctx, r.id, span{from: r.next, to: last, fields: batchFields}) {
		if err != nil {
			return err
		}
		for _, w := range p.rows {
			if !r.batches.continues(w) {
				return nil
			}
			if err := r.show(r.batches.add(w)); err != nil {
				return err
			}
		}
	}
	return nil
}
