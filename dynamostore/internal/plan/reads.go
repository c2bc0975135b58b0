package plan

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Reads is what the journals of all layouts have in common: Replay, and ability.Recoverer. It returns the driver.Reader of an entity.
type Reads func(id annals.PersistenceID) driver.Reader

// Replay is annals.Journal.
func (r Reads) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return driver.Replay(ctx, r(id), from, to)
}

// Recover is ability.Recoverer.
func (r Reads) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.RecoverFrom(ctx, r(id), snapshot, event)
}
