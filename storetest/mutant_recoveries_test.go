package storetest

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

// bareRecovery hands over no metadata.
type bareRecovery struct{ *memstore.Store }

func (s bareRecovery) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return ability.Recover(ctx, s.Store, id, snapshot, func(e annals.Event) error {
		e.Metadata = annals.Payload{}
		return event(e)
	})
}

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
