package host

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
)

// pruneReach bounds the numbers below the oldest kept snapshot in which SaveSnapshot deletes snapshots, in multiples of the distance between
// two snapshots. A store that keeps snapshots between the events also reads the events in that range, and DynamoDB charges for them. So
// without a bound each snapshot would cost more than the one before. Older snapshots were deleted when earlier snapshots were saved; where
// that failed, package cleanup deletes them.
const pruneReach = 4

// SaveSnapshot implements Model. It saves no snapshot that cannot be decoded, and deletes nothing when the save fails. It deletes the events
// that the oldest kept snapshot covers and all projections have handled, after it has read that snapshot back from the store.
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

// deleteEvents deletes the events that the snapshot of number n covers. It reports false when that snapshot is not stored any more: then
// another owner has saved a newer one, and deletes what that one covers.
func (m *Sourced[C, E, S, R]) deleteEvents(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (bool, error) {
	var which annals.SnapshotCriteria // a store that keeps only one snapshot has this or a newer one
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
	n, _, err = progress.Handled(ctx, m.store, m.c.Projections, id, n)
	if err == nil && n > 0 {
		err = m.store.Journal().DeleteTo(ctx, id, n)
	}
	return err == nil, err
}

// readable returns an error when the payload of s cannot be decoded.
func (m *Sourced[C, E, S, R]) readable(s annals.Snapshot) error {
	return m.c.contain("read back snapshot", s.ID, func() error {
		if _, err := m.b.States.Decode(s.Payload); err != nil {
			return &annals.Error{Op: "read back snapshot", ID: s.ID, Last: s.SeqNr, Kind: kindOf(err, annals.ErrCorrupt), Err: fmt.Errorf("snapshot %d: %w", s.SeqNr, err)}
		}
		return nil
	})
}
