package storetest

import (
	"context"
	"runtime"
	"sync"

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

// hastyRecovery reads the snapshot, then the events, as if nothing could be written in between.
type hastyRecovery struct{ *memstore.Store }

func (s hastyRecovery) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	snap, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
	if err != nil {
		return 0, err
	}
	if ok {
		if err := snapshot(snap); err != nil {
			return 0, err
		}
	}
	for range 100 {
		runtime.Gosched() // as a network would
	}
	for e, err := range s.Journal().Replay(ctx, id, snap.SeqNr+1, annals.MaxSeqNr) {
		if err != nil {
			return 0, err
		}
		if err := event(e); err != nil {
			return 0, err
		}
	}
	return s.Journal().LastSeqNr(ctx, id)
}

// pooled has a few connections. A recovery takes one, then another. When none is left it fails at once, instead of after a timeout.
type pooled struct {
	*memstore.Store
	mu   sync.Mutex
	free int
}

func (s *pooled) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	for range 2 {
		if !s.take() {
			return 0, &annals.Error{Op: "recover", ID: id, Kind: annals.ErrUnavailable}
		}
		defer s.give()
		for range 100 {
			runtime.Gosched() // as a network would
		}
	}
	return ability.Recover(ctx, s.Store, id, snapshot, event)
}

func (s *pooled) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

func (s *pooled) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
}
