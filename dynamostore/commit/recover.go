package commit

import (
	"context"
	"errors"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// bufferedBytes is the most bytes of commits that a recovery keeps in memory while it reads backwards. Beyond it the recovery reads forwards.
const bufferedBytes = 16 << 20

// Recover is annals.Recoverer: one backward query. It reads the newest events, then the snapshot, then past older snapshots up to the next
// commit or tombstone, because that commit may have events after the snapshot.
//
// When it finds deleted numbers before it finds a snapshot, then either there is no snapshot above them, or one was saved after that part
// was read. Snapshots have increasing numbers and are saved before events are deleted, so a second read, forwards from there,
// must find it.
func (t *table) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	for {
		b, err := t.backward(ctx, id)
		if err != nil {
			return 0, err
		}
		r := recovery{snapshot: snapshot, event: event}
		if b.snapshot != nil {
			s, ok, err := t.load(ctx, *b.snapshot)
			if err != nil {
				return 0, err
			}
			if !ok {
				continue // there is a newer one by now, or none
			}
			if err := r.restart(s); err != nil {
				return 0, err
			}
		}
		for _, rec := range slices.Backward(b.commits) {
			if err := r.commit(rec); err != nil {
				return 0, err
			}
		}
		if b.again == nil {
			return r.last, nil
		}
		switch err = t.forward(ctx, b, &r); {
		case err == nil:
			return r.last, nil
		case !errors.Is(err, annals.ErrTruncated) || r.handed:
			return 0, err
		}
	}
}

// backwards is the result of the backward read.
type backwards struct {
	snapshot *record
	commits  []record // with events after the snapshot, newest first
	again    *record  // the commit at which a second read, forwards, has to begin; nil when none is needed
	older    bool     // there may be a snapshot below again
}

func (t *table) backward(ctx context.Context, id annals.PersistenceID) (b backwards, err error) {
	items, bytes := 0, 0
	defer func() {
		if err == nil {
			t.depths.learn(id, items)
		}
	}()
	var above *record // the commit read before, which has higher numbers
	for rec, err := range t.records(ctx, id, plan.Query{From: plan.N(1), Backward: true, Limit: t.depths.limit(id)}) {
		if err != nil {
			return b, err
		}
		items++
		switch {
		case rec.snapshot:
			if b.snapshot == nil && !rec.gone {
				b.snapshot = &rec
			}
			continue
		case above == nil:
			t.times.LearnTo(id, rec.at, rec.last())
		case rec.last()+1 != above.seq:
			return fromTheFirst(id), nil // forgotten between two pages, or corrupt
		}
		above = &rec
		switch {
		case b.snapshot != nil:
			divided := rec.last() > b.snapshot.seq
			if divided {
				b.commits = append(b.commits, rec)
			}
			if divided && rec.from > b.snapshot.seq+1 || bytes > bufferedBytes {
				b.again, b.commits = &rec, nil
			}
			return b, nil
		case rec.deleted():
			return backwards{again: &rec, older: true}, nil
		}
		if bytes += plan.Size(rec.item); bytes > bufferedBytes {
			b.commits = nil // too much to keep: go on only to find the snapshot
			continue
		}
		b.commits = append(b.commits, rec)
	}
	switch {
	case above == nil:
	case b.snapshot == nil && above.seq > 1, b.snapshot != nil && above.seq > b.snapshot.seq+1:
		return fromTheFirst(id), nil // forgotten between two pages, or a late write came after that
	case bytes > bufferedBytes:
		b.again = above
	}
	return b, nil
}

func fromTheFirst(id annals.PersistenceID) backwards {
	return backwards{again: &record{id: id, seq: 1}}
}

// forward continues r from b.again. A snapshot that it finds replaces what was handed over before, if that has a gap. ErrTruncated says
// that gaps are left, or that the entity has been forgotten meanwhile.
func (t *table) forward(ctx context.Context, b backwards, r *recovery) error {
	id, first := b.again.id, b.again.seq
	if b.older && first > 1 {
		s, ok, err := t.Latest(ctx, id, annals.SnapshotCriteria{MaxSeqNr: first - 1})
		if err != nil {
			return err
		}
		if ok {
			if err := r.restart(s); err != nil {
				return err
			}
		}
	}
	for rec, err := range t.records(ctx, id, plan.Query{From: plan.N(first), Anchor: isCommit}) {
		switch {
		case err != nil:
			return err
		case rec.snapshot:
			if rec.gone || !r.mends(rec) {
				continue
			}
			s, ok, err := t.load(ctx, rec)
			if err != nil {
				return err
			}
			if ok {
				if err := r.restart(s); err != nil {
					return err
				}
			}
			continue
		case r.newest.count == 0 && first > 1 && (rec.seq != first || rec.write != b.again.write):
			return &annals.Error{Kind: annals.ErrTruncated}
		}
		before := r.newest
		if err := r.commit(rec); err != nil {
			if errors.Is(err, annals.ErrCorrupt) && before.count > 0 {
				err = t.holeOrEnd(ctx, before, err)
			}
			return err
		}
	}
	if r.torn || r.newest.count == 0 && first > 1 {
		return &annals.Error{Kind: annals.ErrTruncated}
	}
	if r.newest.count > 0 {
		t.times.LearnTo(id, r.newest.at, r.newest.last())
	}
	return nil
}

// recovery hands a snapshot and events to the caller, in order.
type recovery struct {
	snapshot func(annals.Snapshot) error
	event    func(annals.Event) error
	newest   record       // the commit before: a snapshot may be in its middle
	covered  annals.SeqNr // the number up to which the snapshot and the events handed over go
	last     annals.SeqNr
	handed   bool // a snapshot or an event was handed over
	begun    bool // events were handed over since the last snapshot
	gap      bool // numbers before those events are deleted, and no snapshot found so far covers them
	torn     bool // numbers after those events are deleted: only a newer snapshot covers them
}

// mends reports whether the snapshot covers numbers that were not handed over.
func (r *recovery) mends(rec record) bool { return r.gap || r.torn || rec.seq > r.covered }

func (r *recovery) restart(s annals.Snapshot) error {
	r.handed = true
	if err := r.snapshot(s); err != nil {
		return err
	}
	r.covered, r.begun, r.gap, r.torn = s.SeqNr, false, false, false
	r.last = max(r.last, s.SeqNr)
	return r.hand(r.newest)
}

func (r *recovery) commit(rec record) error {
	if again, err := r.newest.followedBy(rec); again || err != nil {
		return err
	}
	r.newest = rec
	r.last = max(r.last, rec.last())
	return r.hand(rec)
}

// hand hands over the events of rec that are not yet covered.
func (r *recovery) hand(rec record) error {
	missing := rec.from > r.covered+1
	if r.begun && missing {
		r.torn = true
	}
	if r.torn {
		return nil
	}
	var failed error
	_, err := rec.events(r.covered+1, annals.MaxSeqNr, func(e annals.Event) bool {
		r.handed = true
		if failed = r.event(e); failed != nil {
			return false
		}
		r.covered, r.begun, r.gap = e.SeqNr, true, r.gap || missing
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}
