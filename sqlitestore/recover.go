package sqlitestore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
)

// Recover implements annals.Recoverer. The snapshot, the first page of events and the last number are of one moment; an
// entity with a snapshot seldom has more. Nothing is held while the functions run.
func (c *contracts) Recover(ctx context.Context, id annals.PersistenceID,
	snapshot func(annals.Snapshot) error, event func(annals.Event) error,
) (annals.SeqNr, error) {
	call := annals.Call{Op: "recover", ID: id}
	ctx, o := c.observe(ctx, call)
	if err := id.ValidateRead(call.Op, limits); err != nil {
		return 0, o.end(ctx, err)
	}
	last, err := c.recover(ctx, o, call, snapshot, event)
	return last, o.end(ctx, err)
}

func (c *contracts) recover(ctx context.Context, o *observed, call annals.Call,
	snapshot func(annals.Snapshot) error, event func(annals.Event) error,
) (annals.SeqNr, error) {
	var stop error // of event
	each := func(e annals.Event) error {
		stop = event(e)
		return stop
	}
	for again := false; ; again = true {
		var (
			newest annals.Snapshot
			found  bool
			last   annals.SeqNr
		)
		s := stream{id: call.ID, to: annals.MaxSeqNr}
		o.requests(1)
		err := c.readTx(ctx, call, func(ctx context.Context, q *statements) (err error) {
			if newest, found, err = latestSnapshot(ctx, q, call.ID, annals.SnapshotCriteria{}); err != nil {
				return err
			}
			if last, err = q.lastSeqNr(ctx, call.ID); err != nil {
				return err
			}
			s.from = newest.SeqNr + 1
			return s.page(ctx, q)
		})
		switch {
		case err != nil:
			return 0, err
		case found:
			if err := snapshot(newest); err != nil {
				return 0, err
			}
		case again: // without a snapshot nothing takes back the events that were handed over
			return 0, &annals.Error{Op: call.Op, ID: call.ID, Kind: annals.ErrTruncated}
		}
		if err = s.hand(o, each); err == nil {
			err = c.replay(ctx, o, call, &s, each)
		}
		switch {
		case err == nil:
			return max(last, s.anchor), nil
		case stop != nil || !errors.Is(err, annals.ErrTruncated):
			return 0, err
		}
	}
}
