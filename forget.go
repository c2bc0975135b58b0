package annals

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ForgetAge is how long what was deleted is to stay before it is forgotten: longer than any retry and any paused writer
// takes, so that they still meet the numbers that they know.
const ForgetAge = 15 * time.Minute

// Forgetting names an entity to forget.
type Forgetting struct {
	ID PersistenceID
	// Age is how long ago the last of it must have been deleted, by the store's clock or, where the store does not know
	// when that was, by a later time. ForgetAge is right wherever
	// anybody may still write; 0 forgets at once.
	Age time.Duration
	// DryRun only asks whether it would be forgotten.
	DryRun bool
}

// Forgetter is an optional ability of a Store: it removes what deletes leave of an entity, so that the store knows nothing
// of it any more. That is the end of every promise about its numbers; package cleanup says what that means.
type Forgetter interface {
	// Forget removes what keeps the last number of the entity's journal, and the tombstone of its state with the
	// additional columns beside it. Change handlers are not called. It returns true when nothing is left, also of an
	// entity never written; false, and nothing was removed, when the last of it was deleted less than Age ago.
	//
	// ErrConflict, and nothing was removed, when an event, a snapshot or a state is still there. A write at the same
	// time comes before, and is such a conflict, or behind; either way what it stored stays.
	Forget(ctx context.Context, f Forgetting) (bool, error)
}

// Validate says what is wrong with f for a store with limits l: nil or ErrInvalid.
func (f Forgetting) Validate(l Limits) error {
	var age error
	if f.Age < 0 {
		age = fmt.Errorf("the age is %v", f.Age)
	}
	if err := errors.Join(f.ID.validate(l), age); err != nil {
		return &Error{Op: "forget", ID: f.ID, Kind: ErrInvalid, Err: err}
	}
	return nil
}
