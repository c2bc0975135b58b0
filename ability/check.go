package ability

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
)

// Hole is the numbers From … To of an entity, which have no events.
type Hole struct{ From, To annals.SeqNr }

// Checker is an optional ability of a Store.
type Checker interface {
	// Check reads all events of id, and the newest snapshot, and returns the numbers that a replay or recovery takes for unused although
	// no mark proves that they are: another system left them unused, or a row was lost. The error is ErrCorrupt where a replay or
	// recovery would be. A store that is strict is checked as one that is not.
	Check(ctx context.Context, id annals.PersistenceID) ([]Hole, error)
}

// Checked is what CheckAll finds of one entity.
type Checked struct {
	ID    annals.PersistenceID
	Holes []Hole
	Err   error // ErrCorrupt: events are lost or cannot be read; nil otherwise
}

// CheckAll checks the entities with the ids, and yields each of them, whether something is wrong or not. Query.IDs lists the ids of a store
// that claims IDQueries; to go on later, keep the last ID. For another store the program has a list of its own. An error other than ErrCorrupt, or one
// of ids, ends the sequence. It is ErrUnsupported for a store that is no Checker.
func CheckAll(ctx context.Context, s annals.Store, ids iter.Seq2[annals.PersistenceID, error]) iter.Seq2[Checked, error] {
	return func(yield func(Checked, error) bool) {
		checker, err := Of[Checker](s)
		if err != nil {
			yield(Checked{}, err)
			return
		}
		for id, err := range ids {
			c := Checked{ID: id}
			if err == nil {
				if c.Holes, c.Err = checker.Check(ctx, id); !errors.Is(c.Err, annals.ErrCorrupt) {
					c.Err, err = nil, c.Err
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}
