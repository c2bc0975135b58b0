package annals

import (
	"context"
	"errors"
)

// Recoverer is an optional ability of a Store: the newest snapshot and the events behind it in one round trip.
type Recoverer interface {
	// Recover is the function Recover for this store; the same rules hold for it.
	Recover(ctx context.Context, id PersistenceID, snapshot func(Snapshot) error, event func(Event) error) (SeqNr, error)
}

// Recover brings an entity back: it calls snapshot for the newest snapshot, if there is one, then event for each event
// behind it, in order, and returns the entity's last number, known also when its last events have been deleted. An
// error of either function ends it and is returned unchanged.
//
// When snapshots and deletes of another owner overtake the read, it starts again: snapshot is called once more and
// replaces everything handed over so far. Where no snapshot is left to replace it the error is ErrTruncated: drop what
// was built and call Recover again.
//
// It uses the store's Recoverer; for a store without one it reads with Latest, Replay and, where those leave the last
// number open, LastSeqNr.
func Recover(ctx context.Context, s Store, id PersistenceID, snapshot func(Snapshot) error, event func(Event) error) (SeqNr, error) {
	if r, ok := s.(Recoverer); ok {
		return r.Recover(ctx, id, snapshot, event)
	}
	// A hole between the snapshot and the first event is either a delete for good or the trace of a newer snapshot
	// that came after our look. Snapshots are saved before events are deleted, and only move up: a Latest called
	// after the hole was seen decides it.
	var (
		deleted SeqNr // numbers up to here were deleted before the Latest of this round
		known   SeqNr // the last number, as of an earlier round
		begun   bool  // a snapshot or events were handed over: from then on only a snapshot starts anew
	)
	for {
		if err := ctx.Err(); err != nil {
			return 0, &Error{Op: "recover", ID: id, Kind: ErrUnavailable, Err: err}
		}
		snap, ok, err := s.Snapshots().Latest(ctx, id, SnapshotCriteria{})
		switch {
		case err != nil && !IsUnsupported(err):
			return 0, err
		case ok:
			if err := snapshot(snap); err != nil {
				return 0, err
			}
			begun = true
		case begun:
			return 0, &Error{Op: "recover", ID: id, Kind: ErrTruncated}
		}

		last, gone := snap.SeqNr, deleted
		for e, err := range s.Journal().Replay(ctx, id, last+1, MaxSeqNr) {
			if errors.Is(err, ErrTruncated) {
				last = -1
				break
			}
			if err != nil {
				return 0, err
			}
			if last == snap.SeqNr && e.SeqNr-1 > max(last, deleted) {
				last, gone = -1, e.SeqNr-1
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
			gone = max(gone, known) // what was there earlier and did not come
			if known, err = s.Journal().LastSeqNr(ctx, id); err != nil {
				return 0, err
			}
			if known <= max(last, deleted) {
				return max(known, last), nil
			}
		}
		deleted = gone
	}
}
