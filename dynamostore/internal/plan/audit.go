package plan

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Row tells whose row an item of a table is, "" for one that belongs to no entity of the layout, and what is wrong with its place: nil when it is
// where reads and queries look for it. It is one item alone, so it does not tell whether other items are missing.
type Row func(table string, it Item) (annals.PersistenceID, *ability.Damage)

// Audit is driver.Auditor.
type Audit func(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error)

// Misplaced is the damage of the row n of id at the place that err tells; nil where err is nil.
func Misplaced(id annals.PersistenceID, n annals.SeqNr, err error) *ability.Damage {
	if err == nil {
		return nil
	}
	return &ability.Damage{Code: ability.Key, ID: id, From: n, To: n, Err: err}
}
