package headed

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// recoverer is an annals.Recoverer.
type recoverer struct{ journal *journal }

// Recover is annals.Recoverer. It calls annals.Recover with a store that reads the head once for a snapshot and the events after it: the head has both
// the state and the version, and a lean head is read together with the newest snapshot.
func (r recoverer) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	s := &recovered{journal: r.journal}
	last, err := annals.Recover(ctx, s, id, snapshot, event)
	return max(last, s.head.deleted), err
}

// recovered is the annals.Store that one recovery reads.
type recovered struct {
	annals.Unsupported
	*journal
	head head
	last annals.SeqNr // as the last replay has found it
}

// Journal is annals.Store.
func (r *recovered) Journal() annals.Journal { return r }

// Snapshots is annals.Store.
func (r *recovered) Snapshots() annals.SnapshotStore { return newest{r.snapshots, r} }

// newest is the annals.SnapshotStore of a recovery.
type newest struct {
	*snapshots
	r *recovered
}

// Latest is annals.SnapshotStore. It reads the head.
func (s newest) Latest(ctx context.Context, id annals.PersistenceID, _ annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	h, state, err := s.heads(ctx, id)
	if err == nil && h.item == nil {
		err = s.events.Fits(ctx, s.x, id)
	}
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	s.r.head = h
	m, err := s.read(id, state)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	return s.newestIn(ctx, id, m, annals.SnapshotCriteria{})
}

// heads reads the head of id, and the row with the newest state, which are one row unless heads are lean.
func (s newest) heads(ctx context.Context, id annals.PersistenceID) (h head, state plan.Item, err error) {
	key, err := s.key(id, 0)
	if err != nil {
		return head{}, nil, err
	}
	if !s.lean {
		if state, _, err = s.x.Get(ctx, plan.Get{Table: s.table, Key: key}); err == nil {
			h, err = s.head(state)
		}
		return h, state, err
	}
	current, err := s.current(id)
	if err != nil {
		return head{}, nil, err
	}
	items, err := s.x.GetMany(ctx, []plan.Get{{Table: s.table, Key: key}, {Table: s.table, Key: current}})
	if err != nil {
		return head{}, nil, err
	}
	h, err = s.head(items[0])
	return h, items[1], err
}

// Replay is annals.Journal.
func (r *recovered) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		p := replay{id: id, from: from, to: to, head: r.head, whole: true}
		r.replay(ctx, &p, yield)
		r.head = p.head
		r.last = max(p.last, from-1, r.head.deleted)
	}
}

// LastSeqNr is annals.Journal.
func (r *recovered) LastSeqNr(context.Context, annals.PersistenceID) (annals.SeqNr, error) {
	return r.last, nil
}
