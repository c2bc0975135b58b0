package annals

import "context"

// Progress is one step of a projection: the newest offset of each entity it handled.
type Progress struct {
	Projection string
	Slices     SliceRange // of the worker
	Epoch      int64      // of the worker's lease; an older one than the store knows is ErrFenced; 0 = no lease
	Offsets    []Offset
}

// OffsetStore remembers what projections have handled, entity by entity. Its methods may be called from many
// goroutines at once.
type OffsetStore interface {
	// Load returns where a projection continues: for each slice of r its newest offset, and all others of the same time.
	Load(ctx context.Context, projection string, r SliceRange) ([]Offset, error)
	// Handled returns the offset of the last event of an entity that the projection has handled; false when there is none.
	Handled(ctx context.Context, projection string, id PersistenceID) (Offset, bool, error)
	// Save stores p whole or not at all. An offset that is older than the one already stored for its entity is dropped. ErrFenced
	// when a save with a higher Epoch was seen for a slice of p, ErrInvalid when p names no projection or no such slices.
	Save(ctx context.Context, p Progress) error
	// Reset forgets the offsets within r that are equal to to or later, so that a projection handles those events again; the zero
	// Offset forgets all.
	Reset(ctx context.Context, projection string, r SliceRange, to Offset) error
}
