package ability

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// ForgetAge is the age that a deleted entity should have before it is forgotten. It is longer than retries and pauses of writers last,
// so that a late writer still gets ErrConflict.
const ForgetAge = 15 * time.Minute

// Forgetting names an entity to forget.
type Forgetting struct {
	ID annals.PersistenceID
	// Age is how long ago the last part of the entity must have been deleted, by the store's clock. Where the store does not know when
	// that was, it counts from a later time. ForgetAge is right while there may be writers; 0 forgets at once.
	Age time.Duration
	// DryRun removes nothing: Forget only returns whether the entity would be forgotten.
	DryRun bool
}

// Forgetter is an optional ability of a Store: it removes what deletes leave of an entity, so that the store knows nothing
// of it any more. From then on no promise about its numbers holds; package cleanup explains the consequences.
type Forgetter interface {
	// Forget removes what keeps the last number of the entity's journal, and the tombstone of its state with the
	// additional columns beside it. Change handlers are not called. It returns true when nothing is left, also of an
	// entity never written; false, and nothing was removed, when the last of it was deleted less than Age ago.
	//
	// ErrConflict, and nothing was removed, when an event, a snapshot or a state is still there. What a write stores at the same time
	// stays: the write comes before Forget, which is then such a conflict, or after it.
	Forget(ctx context.Context, f Forgetting) (bool, error)
}
