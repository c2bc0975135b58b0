package storetest

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// forgetfulRecovery begins again when numbers are missing, also when there is no snapshot to replace what it has passed on.
type forgetfulRecovery struct{ *memstore.Store }

func (s forgetfulRecovery) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	for {
		snap, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		if err != nil {
			return 0, err
		}
		if ok {
			if err := snapshot(snap); err != nil {
				return 0, err
			}
		}
		if again, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{}); err != nil {
			return 0, err
		} else if again.SeqNr != snap.SeqNr || ok != (snap.SeqNr > 0) {
			continue
		}
		last := snap.SeqNr
		for e, err := range s.Journal().Replay(ctx, id, last+1, annals.MaxSeqNr) {
			if err != nil {
				return 0, err
			}
			if err := event(e); err != nil {
				return 0, err
			}
			last = e.SeqNr
		}
		return last, nil
	}
}
