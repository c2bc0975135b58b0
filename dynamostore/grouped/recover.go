package grouped

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// recoverer is an annals.Recoverer.
type recoverer struct {
	journal   *journal
	snapshots annals.SnapshotStore // nil where there are none
}

// Recover is annals.Recoverer. It calls annals.Recover with a journal whose replay tells the last number, too. That number can be above the one
// of the last event: when a batch was stored in part, the next writer goes on behind it.
func (r recoverer) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	s := &recovered{journal: r.journal, snapshots: r.snapshots}
	last, err := annals.Recover(ctx, s, id, snapshot, event)
	return max(last, s.last), err
}

// recovered is the annals.Store that one recovery reads.
type recovered struct {
	annals.Unsupported
	*journal
	snapshots annals.SnapshotStore
	last      annals.SeqNr // the last number, as the last replay found it
	replayed  bool         // there was a replay
}

// Journal is annals.Store.
func (r *recovered) Journal() annals.Journal { return r }

// Snapshots is annals.Store.
func (r *recovered) Snapshots() annals.SnapshotStore {
	if r.snapshots == nil {
		return r.Unsupported.Snapshots()
	}
	return r.snapshots
}

// Replay is annals.Journal. It begins with the event in front, that of the snapshot: as long as that is there, no event behind it was deleted.
func (r *recovered) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return r.replay(ctx, replay{id: id, from: from, to: to, begin: max(from-1, 1), lasts: true}, func(p *replay) {
		r.last, r.replayed = max(p.before.n, p.high, p.low-1), true
	})
}

// LastSeqNr is annals.Journal.
func (r *recovered) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	if !r.replayed {
		return r.journal.LastSeqNr(ctx, id)
	}
	return r.last, nil
}
