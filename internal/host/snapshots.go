package host

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
)

// pruneReach is how many snapshots back SaveSnapshot looks for superfluous ones. A store whose snapshots lie between the events
// reads, and bills, the events there too: a look at all of them would cost more with every snapshot. What lies further back was
// deleted behind an earlier snapshot; where that failed, package cleanup finds it.
const pruneReach = 4

// SaveSnapshot implements Model. Nothing is saved that cannot be decoded, and nothing deleted when the save fails. Events go up
// to the oldest snapshot kept, or to where all projections have come, once that snapshot was read back from the store.
func (m *Sourced[C, E, S, R]) SaveSnapshot(ctx context.Context, s NewSnapshot) error {
	if err := m.readable(s.Snapshot); err != nil {
		return err
	}
	snapshots := m.store.Snapshots()
	if err := snapshots.Save(ctx, s.Snapshot); err != nil {
		return err
	}
	oldest := s.SeqNr
	for kept := 1; m.caps.ManySnapshots && kept < m.c.KeepSnapshots && oldest > 1; kept++ {
		older, ok, err := snapshots.Latest(ctx, s.ID, annals.SnapshotCriteria{MaxSeqNr: oldest - 1})
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		oldest = older.SeqNr
	}
	if m.c.DeleteEvents {
		if ok, err := m.deleteEvents(ctx, s.ID, oldest); err != nil || !ok {
			return err
		}
	}
	if m.caps.ManySnapshots && oldest > 1 {
		reach := pruneReach * max(annals.SeqNr(m.b.SnapshotEvery), s.SeqNr-s.Before)
		return snapshots.Delete(ctx, s.ID, annals.SnapshotCriteria{MinSeqNr: max(oldest-reach, 1), MaxSeqNr: oldest - 1})
	}
	return nil
}

// deleteEvents deletes what the snapshot of number n covers. It reports false where that is there no more: another owner has a
// newer one, and cleans up behind it.
func (m *Sourced[C, E, S, R]) deleteEvents(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (bool, error) {
	var which annals.SnapshotCriteria // a store that keeps one snapshot has this one or a newer one
	if m.caps.ManySnapshots {
		which = annals.SnapshotCriteria{MinSeqNr: n, MaxSeqNr: n}
	}
	stored, ok, err := m.store.Snapshots().Latest(ctx, id, which)
	if err != nil || !ok || stored.SeqNr < n {
		return false, err
	}
	if err := m.readable(stored); err != nil {
		return false, err
	}
	handled, _, err := progress.Handled(ctx, m.store.Offsets(), m.c.Projections, id)
	if err != nil {
		return false, err
	}
	if n = min(n, handled); n > 0 {
		err = m.store.Journal().DeleteTo(ctx, id, n)
	}
	return err == nil, err
}

// readable says what is wrong with the payload of s.
func (m *Sourced[C, E, S, R]) readable(s annals.Snapshot) error {
	return m.contain("read back snapshot", s.ID, func() error {
		if _, err := m.b.States.Decode(s.Payload); err != nil {
			return &annals.Error{Op: "read back snapshot", ID: s.ID, Last: s.SeqNr, Kind: annals.ErrCorrupt, Err: fmt.Errorf("snapshot %d: %w", s.SeqNr, err)}
		}
		return nil
	})
}
