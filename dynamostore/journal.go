package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

type journalView struct{ view }

// Append is annals.Journal.
func (v journalView) Append(ctx context.Context, c annals.Commit) (r annals.Receipt, err error) {
	if err := c.Validate(v.limits()); err != nil {
		return r, err
	}
	if c.Snapshot != nil && !v.s.offer.Capabilities.CommitSnapshot {
		return r, &annals.Error{Op: "append", ID: c.ID, Kind: annals.ErrUnsupported}
	}
	if c.WriteID.IsZero() {
		c.WriteID = annals.NewWriteID()
	}
	err = v.call(ctx, annals.Call{Op: "append", ID: c.ID, Events: len(c.Events)}, true, func(ctx context.Context) (err error) {
		r, err = v.s.offer.Journal.Append(ctx, v.x, c)
		if err == nil {
			costsOf(ctx).events(len(c.Events))
		}
		return err
	})
	return r, err
}

// Replay is annals.Journal.
func (v journalView) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		if err := id.ValidateRead("replay", v.limits()); err != nil {
			yield(annals.Event{}, err)
			return
		}
		from := max(from, 1)
		if from > to {
			return
		}
		events := stream(ctx, v.view, annals.Call{Op: "replay", ID: id}, func(ctx context.Context) iter.Seq2[annals.Event, error] {
			return v.s.offer.Journal.Replay(ctx, v.x, id, from, to)
		})
		events(yield)
	}
}

// LastSeqNr is annals.Journal.
func (v journalView) LastSeqNr(ctx context.Context, id annals.PersistenceID) (last annals.SeqNr, err error) {
	if err := id.ValidateRead("last", v.limits()); err != nil {
		return 0, err
	}
	err = v.call(ctx, annals.Call{Op: "last", ID: id}, false, func(ctx context.Context) (err error) {
		last, err = v.s.offer.Journal.LastSeqNr(ctx, v.x, id)
		return err
	})
	return last, err
}

// DeleteTo is annals.Journal.
func (v journalView) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if err := id.ValidateRead("delete events", v.limits()); err != nil {
		return err
	}
	return v.call(ctx, annals.Call{Op: "delete events", ID: id}, true, func(ctx context.Context) error {
		if to <= 0 {
			return nil
		}
		return v.s.offer.Journal.DeleteTo(ctx, v.x, id, to)
	})
}

// Recover is annals.Recoverer. For layouts that cannot do it in one read it is the fallback of annals.Recover.
func (s *Store) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (last annals.SeqNr, err error) {
	if s.offer.Recover == nil {
		return annals.Recover(ctx, struct{ annals.Store }{s}, id, snapshot, event)
	}
	if err := id.ValidateRead("recover", s.view().limits()); err != nil {
		return 0, err
	}
	var theirs error // what a function of the caller's said
	err = s.view().call(ctx, annals.Call{Op: "recover", ID: id}, false, func(ctx context.Context) (err error) {
		last, err = s.offer.Recover(ctx, s.engine, id, func(sn annals.Snapshot) error {
			theirs = snapshot(sn)
			return theirs
		}, func(e annals.Event) error {
			costsOf(ctx).events(1)
			theirs = event(e)
			return theirs
		})
		return err
	})
	if theirs != nil {
		err = theirs
	}
	return last, err
}
