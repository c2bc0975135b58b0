package annals

import "context"

// Hole is the numbers From … To of an entity, which have no events.
type Hole struct{ From, To SeqNr }

// Checker is an optional ability of a Store.
type Checker interface {
	// Check reads all events of id, and the newest snapshot, and returns the numbers that a replay or recovery takes for unused although
	// no mark proves that they are: another system left them unused, or a row was lost. The error is ErrCorrupt where a replay or
	// recovery would be. A store that is strict is checked as one that is not.
	Check(ctx context.Context, id PersistenceID) ([]Hole, error)
}
