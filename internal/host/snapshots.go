package host

import (
	"context"

	"github.com/annals-go/annals"
)

// SaveSnapshot saves s, which an acknowledged write has made true, then deletes what it makes superfluous: events up to
// the oldest snapshot kept, if c says so, and older snapshots. Nothing is deleted when the save fails.
func SaveSnapshot(ctx context.Context, store annals.Store, c Config, s annals.Snapshot) error {
	snapshots := store.Snapshots()
	if err := snapshots.Save(ctx, s); err != nil {
		return err
	}
	oldest, many := s.SeqNr, store.Capabilities().ManySnapshots
	for kept := 1; many && kept < c.KeepSnapshots && oldest > 1; kept++ {
		older, ok, err := snapshots.Latest(ctx, s.ID, annals.SnapshotCriteria{MaxSeqNr: oldest - 1})
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		oldest = older.SeqNr
	}
	if c.DeleteEvents {
		if err := store.Journal().DeleteTo(ctx, s.ID, oldest); err != nil {
			return err
		}
	}
	if many && oldest > 1 {
		return snapshots.Delete(ctx, s.ID, annals.SnapshotCriteria{MaxSeqNr: oldest - 1})
	}
	return nil
}
