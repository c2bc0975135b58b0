package memstore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// Scan is ability.Scanner, in the order of ids.
func (v view) Scan(ctx context.Context, entityType, after string) iter.Seq2[ability.Scanned, error] {
	return driver.ScanIDs(v.ids(ctx, entityType, annals.PersistenceID(after), true))
}
