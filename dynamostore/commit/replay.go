package commit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// reader is a driver.Reader. Each commit begins with the number after the commit before it, and has an item until the entity is forgotten.
type reader struct {
	*table
	id         annals.PersistenceID
	recovering bool           // the commit of the snapshot's number must exist as long as the events after it are read
	before, at record         // the commit that was read last is at; before was read before it
	events     []annals.Event // of the commit that was read last
}

// bufferedBytes is the most bytes of commits that a recovery keeps in memory while it reads backwards. Beyond it the recovery reads forwards.
const bufferedBytes = 16 << 20

// Begin is driver.Reader. If a snapshot may be missed, it is one backward query: it reads the newest events, then the snapshot, then past
// older snapshots up to the next commit or tombstone, because that commit may have events after the snapshot. Its first page is of one
// moment: what is deleted there is not replaced by a snapshot that it does not have.
func (r *reader) Begin(ctx context.Context, sure bool) (b driver.Beginning, err error) {
	r.recovering = true
	if sure {
		b.Snapshot, b.Found, err = r.Latest(ctx, r.id, annals.SnapshotCriteria{})
		return b, err
	}
	var (
		header       *record  // of the snapshot
		held         []record // with events after the snapshot, newest first
		first        record   // the commit read last
		deleted      annals.SeqNr
		items, bytes int
		paged        bool
	)
	q := plan.Query{From: plan.N(1), Backward: true, Limit: r.depths.limit(r.id), Paged: func() { paged = true }}
	for rec, err := range r.records(ctx, r.id, q) {
		if err != nil {
			return b, err
		}
		items++
		if rec.snapshot {
			if header == nil && !rec.gone {
				header = &rec
			}
			continue
		}
		if first.count == 0 {
			r.times.LearnTo(r.id, rec.at, rec.last())
		}
		if first = rec; rec.deleted() {
			deleted = max(deleted, rec.from-1)
		}
		if header == nil || rec.last() > header.seq {
			held = append(held, rec)
			bytes += plan.Size(rec.item)
		}
		if bytes > bufferedBytes {
			held = nil // too much to keep: go on only to find the snapshot
		}
		if header != nil || paged && deleted > 0 {
			break
		}
	}
	r.depths.learn(r.id, items)
	if header != nil {
		if b.Snapshot, b.Found, err = r.load(ctx, *header); err != nil {
			return b, err
		}
		if !b.Found {
			return r.Begin(ctx, false) // there is a newer one by now, or none
		}
	}
	if !paged {
		b.Settled = deleted
	}
	from := b.Snapshot.SeqNr + 1
	if b.Rows = r.held(ctx, held, from); bytes > bufferedBytes {
		b.Rows = r.after(ctx, first, first.seq, from, annals.MaxSeqNr)
	}
	return b, nil
}

// held yields the commits that a backward query has read.
func (r *reader) held(ctx context.Context, held []record, from annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		r.before, r.at = record{}, record{}
		for _, rec := range slices.Backward(held) {
			if p, err := r.part(ctx, rec, from, annals.MaxSeqNr); !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Rows is driver.Reader. It begins with the commit that may contain from.
func (r *reader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	if from == 1 {
		return r.after(ctx, record{}, 1, from, to)
	}
	return func(yield func(driver.Part, error) bool) {
		first, ok, err := r.newest(ctx, r.id, plan.Query{To: plan.N(from)})
		if err != nil {
			yield(driver.Part{}, err)
			return
		}
		start := annals.SeqNr(1)
		if ok {
			if start = first.seq; first.last() < from && !r.recovering {
				start = first.last() + 1
			}
		}
		r.after(ctx, first, start, from, to)(yield)
	}
}

// after yields first, a commit that has been read, and those after it. The query begins with the number start. If that is the number of first, the
// query must find first again: otherwise the entity has been forgotten meanwhile.
func (r *reader) after(ctx context.Context, first record, start, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		r.before, r.at = record{}, record{}
		defer func() {
			if r.at.count > 0 {
				r.times.LearnTo(r.id, r.at.at, r.at.last())
			}
		}()
		anchored := first.count > 0 && first.seq == start
		if first.count > 0 {
			if p, err := r.part(ctx, first, from, to); !yield(p, err) || err != nil {
				return
			}
		}
		if max(start, first.last()+1) > to {
			return
		}
		for rec, err := range r.records(ctx, r.id, plan.Query{From: plan.N(start), To: plan.N(to), Anchor: isCommit, Dense: true}) {
			if err == nil && rec.snapshot {
				continue
			}
			var p driver.Part
			if err == nil && anchored && rec.seq != start {
				break
			}
			anchored = anchored && err != nil
			if err == nil {
				p, err = r.part(ctx, rec, from, to)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
		if anchored {
			yield(driver.Part{}, forgotten())
		}
	}
}

// part returns what a commit has of the numbers from … to. It is the commit that was read last, again, where a page begins with it.
func (r *reader) part(ctx context.Context, rec record, from, to annals.SeqNr) (p driver.Part, err error) {
	if rec.seq == r.at.seq && rec.write == r.at.write {
		return p, nil
	}
	if r.before, r.at = r.at, rec; rec.seq <= r.before.last() {
		if err := r.stand(ctx); err != nil {
			return p, err
		}
		return p, corrupt(rec.seq, &ability.Damage{Code: ability.Doubled, From: rec.seq, To: min(rec.last(), r.before.last()), Err: fmt.Errorf("the commit before it ends with %d", r.before.last())})
	}
	if rec.deleted() {
		p.Deleted = rec.from - 1
	}
	r.events, err = rec.events(r.events[:0], from, to)
	p.Events = r.events
	return p, err
}

// Gap is driver.Reader. Rows has no gaps, so the events are lost, unless the entity has been forgotten meanwhile. A first commit with a
// number above 1 may follow a Forget: its writer knew the last number.
func (r *reader) Gap(ctx context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	if r.before.count == 0 && (from == 1 || !r.recovering) {
		p.Unused = to
	}
	return p, r.stand(ctx)
}

// stand returns ErrTruncated if one of the last two commits that were read has been removed.
func (r *reader) stand(ctx context.Context) error {
	var read []record
	var gets []plan.Get
	for _, rec := range []record{r.before, r.at} {
		if rec.count > 0 {
			read, gets = append(read, rec), append(gets, plan.Get{Table: r.name, Key: key(r.id, rec.seq)})
		}
	}
	items, err := r.x.GetMany(ctx, gets)
	if err != nil {
		return err
	}
	for i, it := range items {
		var w annals.WriteID
		b, _ := plan.Bytes(it, attrWrite)
		copy(w[:], b)
		if it == nil || w != read[i].write {
			return forgotten()
		}
	}
	return nil
}

func forgotten() error {
	return &annals.Error{Kind: annals.ErrTruncated, Err: errors.New("the entity was forgotten meanwhile")}
}
