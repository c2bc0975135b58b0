package annals

import "context"

// Progress is one step of a projection, which the worker of some slices saves.
type Progress struct {
	Projection string
	Slices     SliceRange // of the worker. Those of one projection are all of SliceRanges or all of SpreadRanges
	Epoch      int64      // of the worker's lease; an older one than the store knows is ErrFenced; 0 = no lease
	// Through says that every event of Slices at or before it has been handled, in this step or an earlier one. The zero Offset says
	// nothing, and an older one than is stored for a slice changes nothing there.
	Through Offset
	// Offsets are the events that this step has handled, at least the newest of each entity, and those of one entity in the order in which they
	// were handled: a lower number at a later time is that of an entity that was forgotten and has begun again. One that was handled before
	// is dropped.
	Offsets []Offset
	// Once demands that none of Offsets has been handled before. Otherwise the save is ErrConflict, and nothing of its transaction is
	// stored: two workers that handle the same event cannot both commit.
	Once bool
}

// Position is how far a projection has come in some slices: it has handled all events at or before Through, and of the entities in Offsets
// those that their offsets cover. To go on, read the events after Through and leave out those that an offset covers.
type Position struct {
	Slices  SliceRange
	Epoch   int64 // the highest that was saved for these slices, or the next one after a Reset; 0 = none
	Through Offset
	Offsets []Offset // of the entities handled beyond Through, in the order of Offset
}

// OffsetStore remembers what projections have handled. Its methods may be called from many goroutines at once.
type OffsetStore interface {
	// Load returns where projection stands: positions in the order of their slices, which together are those of r, however the ranges
	// of the workers were cut when they saved. Nothing saved is the zero Through.
	Load(ctx context.Context, projection string, r SliceRange) ([]Position, error)
	// Handled returns an offset for each of ids: the events of that entity which it covers have been handled. The zero Offset covers none.
	Handled(ctx context.Context, projection string, ids ...PersistenceID) ([]Offset, error)
	// Save stores p whole or not at all. ErrFenced when a higher Epoch is stored for a slice of p, ErrConflict as Once says, ErrTooLarge
	// beyond Limits.MaxOffsets, ErrInvalid when p names no projection or no such slices, or an entity of other slices.
	Save(ctx context.Context, p Progress) error
	// Reset takes the slices of r back to to, so that a projection handles again what comes after to; the zero Offset takes them back
	// to the beginning. Of an entity in Position.Offsets that is beyond to, events before to are handled again, too. Reset raises the
	// epoch of the slices, so that a worker with a lease is fenced; a worker without one must not be running.
	Reset(ctx context.Context, projection string, r SliceRange, to Offset) error
	// Forget removes the offsets of ids, so that Load and Handled do not return them any more; those that are not there are no error. It is for
	// entities whose events are deleted: an event beyond Through that is still there is handled again. A Through stays, with its ID, until a later
	// one is saved.
	Forget(ctx context.Context, projection string, ids ...PersistenceID) error
}
