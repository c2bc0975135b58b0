package sqlitestore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Recover is annals.Recoverer. The snapshot and the first page of events are of one moment; an entity with a snapshot seldom has more
// pages. Where events are deleted while later pages are read, it begins again with the snapshot that replaced them.
func (v view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	for again := false; ; again = true {
		var (
			newest annals.Snapshot
			found  bool
		)
		s := stream{id: id, to: annals.MaxSeqNr}
		err := driver.Fetch(ctx, func(ctx context.Context) error {
			return v.readTx(ctx, func(ctx context.Context, q *statements) (err error) {
				if newest, found, err = latestSnapshot(ctx, q, id, annals.SnapshotCriteria{}); err != nil {
					return err
				}
				s.from = newest.SeqNr + 1
				return s.page(ctx, q)
			})
		})
		switch {
		case err != nil:
			return 0, err
		case found:
			if err := snapshot(newest); err != nil {
				return 0, err
			}
		case again: // without a snapshot the caller cannot discard the events that it was given before
			return 0, s.truncated()
		}
		var stop error // of the caller
		err = v.replay(ctx, &s, func(e annals.Event) bool {
			stop = event(e)
			return stop == nil
		})
		switch {
		case stop != nil:
			return 0, stop
		case err == nil:
			return s.last, nil
		case !errors.Is(err, annals.ErrTruncated):
			return 0, err
		}
	}
}
