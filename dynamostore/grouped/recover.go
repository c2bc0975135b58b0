package grouped

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// recoverer is an annals.Recoverer.
type recoverer struct {
	journal   *journal
	snapshots annals.SnapshotStore // nil where there are none
}

// Recover is annals.Recoverer.
func (r recoverer) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.RecoverFrom(ctx, &reader{journal: r.journal, id: id, snapshots: r.snapshots}, snapshot, event)
}
