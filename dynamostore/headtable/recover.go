package headtable

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// recoverer is an annals.Recoverer.
type recoverer struct{ journal *journal }

// Recover is annals.Recoverer: annals.Recover with two requests. The first one reads the head and the current snapshot, the second one the events.
func (r recoverer) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	s := &recovered{journal: r.journal, snapshots: r.journal.snapshots}
	last, err := annals.Recover(ctx, s, id, snapshot, event)
	return max(last, s.head.last), err // the last number may be one without an event, see Journal.Gaps
}

// recovered is the annals.Store that one recovery reads.
type recovered struct {
	annals.Unsupported
	*journal
	*snapshots
	head head // as Latest has read it
}

// Journal is annals.Store.
func (r *recovered) Journal() annals.Journal { return r }

// Snapshots is annals.Store.
func (r *recovered) Snapshots() annals.SnapshotStore { return r }

// Latest is annals.SnapshotStore, without criteria. It reads the head, too. The two are not of one moment: a snapshot that is newer than the head
// has all events that the head knows of, and events that were deleted between the two are missing in the replay.
func (r *recovered) Latest(ctx context.Context, id annals.PersistenceID, _ annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	aid, err := aidOf(id)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	items, err := r.journal.x.GetMany(ctx, []plan.Get{{Table: r.heads, Key: headKey(aid)}, {Table: r.snapshots.table, Key: snapshotKey(aid, currentPlace)}})
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	if r.head, err = r.readHead(id, items[0]); err != nil || items[1] == nil {
		return annals.Snapshot{}, false, err
	}
	return r.snapshots.read(id, items[1])
}

// Replay is annals.Journal.
func (r *recovered) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		if err := r.replay(ctx, id, r.head, from, to, func(e annals.Event) bool { return yield(e, nil) }); err != nil {
			yield(annals.Event{}, err)
		}
	}
}

// LastSeqNr is annals.Journal.
func (r *recovered) LastSeqNr(context.Context, annals.PersistenceID) (annals.SeqNr, error) {
	return r.head.last, nil
}
