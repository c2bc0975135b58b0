package commit

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// depth learns how many items a recovery reads, for the limit of its first page: without one the query would read, and
// bill, a megabyte past the snapshot. It follows growth at once and shrinks slowly.
type depth struct{ items atomic.Int64 }

const (
	depthFirst = 30 // before anything is known
	depthMost  = 900
)

func (d *depth) limit() int {
	n := d.items.Load()
	if n == 0 {
		return depthFirst
	}
	return int(n + n/8 + 2)
}

func (d *depth) learn(items int) {
	now, was := min(int64(items), depthMost), d.items.Load()
	if now < was {
		now = was - (was-now+7)/8
	}
	d.items.Store(now) // a lost update only learns a little later
}

// bufferedBytes bounds what a backward recovery keeps before it turns to reading forwards.
const bufferedBytes = 16 << 20

// Recover is plan.Recover: one query backwards, newest events first, then the snapshot, then past older snapshots to the
// first commit or tombstone, whose commit may go on behind the snapshot.
//
// Where it meets deleted numbers before a snapshot, either there is none above them or one was saved behind its back.
// Snapshots only move up and are saved before events are deleted, so a second read, forwards from there, must meet it.
func (t *table) Recover(ctx context.Context, x plan.Executor, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	var lost [][]byte // saves whose parts are gone
	for {
		b, err := t.backward(ctx, x, id, lost)
		if err != nil {
			return 0, err
		}
		if b.forwardFrom > 0 {
			return t.forward(ctx, x, id, b.forwardFrom, snapshot, event)
		}
		var covered annals.SeqNr
		if b.snapshot != nil {
			s, ok, err := t.load(ctx, x, *b.snapshot)
			if err != nil {
				return 0, err
			}
			if !ok {
				lost = append(lost, saveOf(*b.snapshot))
				continue
			}
			if err := snapshot(s); err != nil {
				return 0, err
			}
			covered = s.SeqNr
		}
		last := covered
		for _, rec := range slices.Backward(b.commits) {
			var failed error
			if _, err := rec.events(covered+1, annals.MaxSeqNr, func(e annals.Event) bool {
				failed = event(e)
				return failed == nil
			}); err != nil {
				return 0, err
			}
			if failed != nil {
				return 0, failed
			}
			last = max(last, rec.last())
		}
		return last, nil
	}
}

// backwards is what the backward read found.
type backwards struct {
	snapshot    *record
	commits     []record     // with events behind the snapshot, newest first
	forwardFrom annals.SeqNr // read again from here, forwards; 0 = no need
}

func (t *table) backward(ctx context.Context, x plan.Executor, id annals.PersistenceID, lost [][]byte) (b backwards, err error) {
	items, bytes := 0, 0
	defer func() {
		if err == nil {
			t.depth.learn(items)
		}
	}()
	for it, err := range x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), From: plan.N(1), Backward: true, Limit: t.depth.limit()}) {
		if err != nil {
			return b, err
		}
		items++
		rec, err := read(id, it)
		if err != nil {
			return b, err
		}
		if rec.snapshot {
			if b.snapshot == nil && !among(lost, saveOf(rec)) {
				b.snapshot = &rec
			}
			continue
		}
		if n := len(b.commits); n > 0 && rec.last()+1 != b.commits[n-1].seq {
			return b, hole(rec.last()+1, b.commits[n-1].seq)
		}
		if b.snapshot != nil {
			if rec.last() > b.snapshot.seq {
				if rec.from > b.snapshot.seq+1 {
					b.forwardFrom = rec.seq
				}
				b.commits = append(b.commits, rec)
			}
			return b, nil
		}
		if rec.deleted() {
			b.forwardFrom = rec.seq
			return b, nil
		}
		if bytes += plan.Size(it); bytes > bufferedBytes {
			b.forwardFrom = 1
			return b, nil
		}
		b.commits = append(b.commits, rec)
	}
	var covered annals.SeqNr
	if b.snapshot != nil {
		covered = b.snapshot.seq
	}
	if n := len(b.commits); n > 0 && b.commits[n-1].seq > covered+1 {
		b.forwardFrom = 1 // the entity was forgotten between two pages, or begins there because a late writer came behind that
	}
	return b, nil
}

// forward hands over the newest snapshot below from, then everything from there on; a snapshot on the way replaces what was
// handed over before it.
func (t *table) forward(ctx context.Context, x plan.Executor, id annals.PersistenceID, from annals.SeqNr, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	f := forward{snapshot: snapshot, event: event}
	if from > 1 {
		s, ok, err := t.Latest(ctx, x, id, annals.SnapshotCriteria{MaxSeqNr: from - 1})
		if err != nil {
			return 0, err
		}
		if ok {
			if err := f.restart(s); err != nil {
				return 0, err
			}
		}
	}
	var snapshots annals.SeqNr // the last one met
	for it, err := range x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), From: plan.N(from), Anchor: isCommit}) {
		if err != nil {
			return 0, err
		}
		rec, err := read(id, it)
		if err != nil {
			return 0, err
		}
		switch {
		case rec.snapshot && rec.seq <= snapshots, !rec.snapshot && f.newest != nil && rec.seq <= f.newest.seq:
			continue // the beginning of a page is the end of the one before
		case rec.snapshot:
			snapshots = rec.seq
		default:
			if err := f.commit(rec); err != nil {
				return 0, err
			}
			continue
		}
		s, ok, err := t.load(ctx, x, rec)
		if err != nil {
			return 0, err
		}
		if ok {
			if err := f.restart(s); err != nil {
				return 0, err
			}
		}
	}
	if f.torn {
		return 0, &annals.Error{Kind: annals.ErrTruncated}
	}
	return f.last, nil
}

// forward is the state of a forward recovery.
type forward struct {
	snapshot func(annals.Snapshot) error
	event    func(annals.Event) error
	newest   *record      // the commit before, for a snapshot in its middle
	covered  annals.SeqNr // by the snapshot or the events handed over
	last     annals.SeqNr
	begun    bool // events were handed over since the last snapshot
	torn     bool // and numbers behind them are gone: only a further snapshot mends that
}

func (f *forward) restart(s annals.Snapshot) error {
	if err := f.snapshot(s); err != nil {
		return err
	}
	f.covered, f.begun, f.torn = s.SeqNr, false, false
	f.last = max(f.last, s.SeqNr)
	if f.newest != nil {
		return f.hand(*f.newest)
	}
	return nil
}

func (f *forward) commit(rec record) error {
	if f.newest != nil && rec.seq != f.newest.last()+1 {
		return hole(f.newest.last()+1, rec.seq)
	}
	f.newest = &rec
	f.last = max(f.last, rec.last())
	return f.hand(rec)
}

// hand gives the events of rec that are not yet covered.
func (f *forward) hand(rec record) error {
	if f.begun && rec.from > f.covered+1 {
		f.torn = true
	}
	if f.torn {
		return nil
	}
	var failed error
	_, err := rec.events(f.covered+1, annals.MaxSeqNr, func(e annals.Event) bool {
		if failed = f.event(e); failed != nil {
			return false
		}
		f.covered, f.begun = e.SeqNr, true
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}
