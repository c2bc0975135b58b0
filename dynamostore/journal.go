package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

type journal struct{ view }

// Append is annals.Journal.
func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	return j.offer.Journal.Append(ctx, j.x, c)
}

// Replay is annals.Journal.
func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return j.offer.Journal.Replay(ctx, j.x, id, from, to)
}

// LastSeqNr is annals.Journal.
func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	return j.offer.Journal.LastSeqNr(ctx, j.x, id)
}

// DeleteTo is annals.Journal.
func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	return j.offer.Journal.DeleteTo(ctx, j.x, id, to)
}

// Recover is annals.Recoverer.
func (v view) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	if v.offer.Recover == nil {
		return 0, errUnsupported
	}
	return v.offer.Recover(ctx, v.x, id, snapshot, event)
}
