package akka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// surroundings are the rows around a gap, in ascending order, and the mark of the lowest number, which was read after them.
type surroundings struct {
	rows     []row
	shown    []bool       // by row: its batch is complete
	from, to annals.SeqNr // from is the first number that was read, to the last one of the gap
}

// at returns the index of the first row from n on.
func (a *surroundings) at(n annals.SeqNr) int {
	i, _ := slices.BinarySearchFunc(a.rows, n, func(r row, n annals.SeqNr) int { return cmp.Compare(r.n, n) })
	return i
}

// Gap is driver.Reader. Rows that are missing were deleted when the mark is above them. The plugin leaves the numbers of events unused that it
// cannot store, and those of a batch of which it has stored a part; nothing proves that, but other rows can prove that the events were there.
func (r *reader) Gap(ctx context.Context, from, to annals.SeqNr) (driver.Part, error) {
	if err := r.look(ctx, from, to); err != nil {
		return driver.Part{}, err
	}
	p := driver.Part{Deleted: r.marks.deleted()}
	if p.Deleted >= from {
		return p, nil
	}
	rows, shown := r.around.rows, r.around.shown
	i := r.around.at(from)
	if i < len(rows) && rows[i].n == from && shown[i] {
		for n := from; n <= to && i < len(rows) && rows[i].n == n && shown[i]; n, i = n+1, i+1 {
			e, live, err := r.event(r.id, rows[i])
			switch {
			case err != nil:
				return driver.Part{}, err
			case live:
				p.Events = append(p.Events, e)
				continue
			case n == from: // its writer has stored it as deleted
				p.Unused, p.Proven = n, true
			}
			break
		}
		return p, nil
	}
	end := i
	for end < len(rows) && !shown[end] {
		end++
	}
	if p.Unused = to; end < len(rows) {
		p.Unused = min(to, rows[end].n-1)
	}
	if !r.gaps {
		for k := i; k <= end; k++ {
			if err := r.lost(ctx, from, k); err != nil {
				return driver.Part{}, err
			}
		}
	}
	return p, nil
}

// look reads the rows around a gap, unless they were read when the row behind it was there: then whatever is missing was missing, and
// not deleted, at that moment.
func (r *reader) look(ctx context.Context, from, to annals.SeqNr) error {
	a := &r.around
	if i := a.at(to + 1); from > a.from && len(a.rows) > 0 && (to == a.to || i < len(a.rows) && a.rows[i].n == to+1) {
		return nil
	}
	first, last := (from-1)-(from-1)%perGroup, annals.MaxSeqNr
	if next := min(to, last-1) + 1; groupOf(next) < groupOf(last) { // the last group has fewer numbers
		last = next - next%perGroup + perGroup - 1
	}
	*a = surroundings{from: first, to: to}
	rows, err := r.rowsOf(ctx, span{from: first, to: last, high: to, most: mostEmpty})
	if err == nil && len(rows) > 0 {
		var more []row
		if w := rows[len(rows)-1]; w.last >= last && w.last < annals.MaxSeqNr {
			more, err = r.rowsOf(ctx, span{from: last + 1, to: w.last + 1})
			rows = append(rows, more...)
		}
		if w := rows[0]; err == nil && w.first < first {
			more, err = r.rowsOf(ctx, span{from: max(w.first, r.marks.low), to: first - 1, high: first, most: mostEmpty})
			rows = append(more, rows...)
		}
	}
	low, failed := r.lowMark(ctx, r.id)
	r.marks.low = max(r.marks.low, low)
	if failed != nil || err != nil && !(errors.Is(err, errEmpty) && r.marks.low > from) {
		return cmp.Or(failed, err)
	}
	b := batches{low: r.marks.low}
	for _, w := range rows {
		if w.n < r.marks.low {
			continue
		}
		a.rows, a.shown = append(a.rows, w), append(a.shown, false)
		for i := range b.add(w) {
			a.shown[len(a.shown)-1-i] = true
		}
	}
	return nil
}

func (r *reader) rowsOf(ctx context.Context, s span) (rows []row, err error) {
	for p, err := range r.read(ctx, r.id, s) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, p.rows...)
	}
	return rows, nil
}

// lost returns ErrCorrupt when other rows prove that events of row k's batch were stored and are missing, or events in front of row k, number
// gap or later ones. k may be the number of rows.
//
// A writer of the plugin ends when it cannot store a batch. So a batch is complete if its writer has stored something behind it. And a
// writer stores no number twice.
func (r *reader) lost(ctx context.Context, gap annals.SeqNr, k int) error {
	a := &r.around
	var before, w row
	if k > 0 {
		before = a.rows[k-1]
	}
	if k == len(a.rows) {
		return nil
	}
	if w = a.rows[k]; !a.shown[k] {
		if _, writer := owner(w.item); writer != "" {
			first := a.at(max(w.first, r.marks.low))
			next := first
			for ; next < len(a.rows) && a.rows[next].n <= w.last; next++ {
				if other := a.rows[next]; (other.first != w.first || other.last != w.last) && by(other, writer) {
					return r.Corrupt(w.item, &ability.Damage{Code: ability.Doubled, From: w.first, To: w.last, Err: fmt.Errorf("events %d and %d of one writer are of batches that overlap", w.n, other.n)})
				}
			}
			if stored := annals.SeqNr(next - first); stored <= w.last-max(w.first, r.marks.low) && next < len(a.rows) && by(a.rows[next], writer) {
				return r.Corrupt(w.item, &ability.Damage{Code: ability.Incomplete, From: w.first, To: w.last, Err: fmt.Errorf("of the batch %d to %d there are %d events", w.first, w.last, stored)})
			}
		}
	}
	return r.hole(ctx, gap, before, w)
}

// by reports whether a row is of a writer.
func by(w row, writer string) bool {
	_, of := owner(w.item)
	return of == writer
}

// hole returns ErrCorrupt for numbers that are missing in front of row b, and behind row a, unless a writer of the plugin may have left them
// unused. a has number 0 where there is none. The numbers can be of an incomplete batch of which one of the rows is the rest. And the plugin
// leaves the numbers of events unused that cannot be stored. Its writers have one id for many commits, while each commit of this package
// has its own.
func (r *reader) hole(ctx context.Context, gap annals.SeqNr, a, b row) error {
	from, to := max(a.n, a.last, r.marks.deleted())+1, min(b.n, b.first)-1
	_, first := owner(a.item)
	_, second := owner(b.item)
	if from > to || to < gap || second == "" || a.n > 0 && (first == "" || first == second) {
		return nil
	}
	for _, beside := range []struct {
		n      annals.SeqNr
		writer string
	}{{a.first - 1, first}, {b.last + 1, second}} {
		if beside.n < 1 {
			continue
		}
		it, _, err := r.x.Get(ctx, plan.Get{Table: r.Table, Key: r.key(r.id, beside.n)})
		if err != nil {
			return err
		}
		if _, writer := owner(it); writer == beside.writer {
			return nil
		}
	}
	return r.Corrupt(b.item, &ability.Damage{Code: ability.Missing, From: from, To: to, Err: fmt.Errorf("events %d to %d are missing", from, to)})
}
