package ability

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
)

// Recoverer is an optional ability of a Store: it reads the newest snapshot and the events after it together.
type Recoverer interface {
	// Recover is the function Recover for this store; the same rules hold for it.
	Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error)
}

// Recover reads an entity: it calls snapshot for the newest snapshot, if there is one, then event for each event after the
// snapshot, in order, and returns the entity's last number, which is known also when the last events have been deleted. An error of
// either function ends Recover and is returned unchanged.
//
// When another owner saves snapshots and deletes events during the read, Recover may start again: it calls snapshot once more, with a
// snapshot that replaces everything handed over so far. When there is no such snapshot the error is ErrTruncated: drop what was built
// and call Recover again.
//
// Recover uses the store's Recoverer. For a store without one it calls Latest, Replay and, where those do not tell the last number,
// LastSeqNr.
func Recover(ctx context.Context, s annals.Store, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	if r, err := Of[Recoverer](s); err == nil {
		return r.Recover(ctx, id, snapshot, event)
	}
	// A hole between the snapshot and the first event has one of two causes: the events were deleted and nothing replaces them, or a newer
	// snapshot was saved after Latest was called. A snapshot is saved before events are deleted, and its number only grows. So Latest,
	// called again after the hole was seen, tells the cause.
	var (
		deleted annals.SeqNr // numbers up to here were deleted before this round called Latest
		known   annals.SeqNr // the last number that an earlier round found
		begun   bool         // a snapshot or events were handed over: from then on only a snapshot can replace them
	)
	for {
		if err := ctx.Err(); err != nil {
			return 0, &annals.Error{Op: "recover", ID: id, Kind: annals.ErrUnavailable, Err: err}
		}
		snap, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		switch {
		case err != nil && !errors.Is(err, annals.ErrUnsupported):
			return 0, err
		case ok:
			if err := snapshot(snap); err != nil {
				return 0, err
			}
			if snap.SeqNr == annals.MaxSeqNr {
				return snap.SeqNr, nil
			}
			begun = true
		case begun:
			return 0, &annals.Error{Op: "recover", ID: id, Kind: annals.ErrTruncated}
		}

		last, missing := snap.SeqNr, deleted
		for e, err := range s.Journal().Replay(ctx, id, last+1, annals.MaxSeqNr) {
			if errors.Is(err, annals.ErrTruncated) {
				last = -1
				break
			}
			if err != nil {
				return 0, err
			}
			if last == snap.SeqNr && e.SeqNr-1 > max(last, deleted) {
				last, missing = -1, e.SeqNr-1
				break
			}
			if err := event(e); err != nil {
				return 0, err
			}
			last, begun = e.SeqNr, true
		}
		switch {
		case last > snap.SeqNr:
			return last, nil
		case last == snap.SeqNr:
			missing = max(missing, known) // numbers that were there in an earlier round and were not read
			if known, err = s.Journal().LastSeqNr(ctx, id); err != nil {
				return 0, err
			}
			if known <= max(last, deleted) {
				return max(known, last), nil
			}
		}
		deleted = missing
	}
}
