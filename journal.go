package annals

import (
	"context"
	"iter"
)

// Journal is the append-only log of every entity in one store. Its methods may be called from many goroutines at once.
type Journal interface {
	// Append stores c whole or not at all; ErrConflict when the entity's last number is not c.After, unless an
	// earlier try with the same WriteID and After landed: then it succeeds, with Receipt.Repeated. A commit that is
	// wrong in itself is ErrInvalid or ErrTooLarge before anything is written. ErrUnknown means that it may have
	// landed: send the identical commit again.
	//
	// c.After is a number that the store told the writer, by a receipt, a recovery or LastSeqNr, never an invented one. One
	// above the last is ErrConflict on memory, SQLite and PostgreSQL. DynamoDB is only asked whether the next number is
	// free: there the commit is stored behind a hole, and reads of the entity may be ErrCorrupt from then on.
	Append(ctx context.Context, c Commit) (Receipt, error)

	// Replay yields the events from ≤ SeqNr ≤ to that are not deleted, in order: every event acknowledged before the
	// call, and perhaps later ones. Numbers may be missing before the first event yielded; behind it a hole is
	// ErrTruncated when DeleteTo made it meanwhile, also when no event follows, and otherwise ErrCorrupt, but where
	// another system's writers left numbers unused in a table that it shares. An error comes once, last, with a zero
	// Event. Nothing is held while the body runs: it may write to the same store, and break off at any event.
	Replay(ctx context.Context, id PersistenceID, from, to SeqNr) iter.Seq2[Event, error]

	// LastSeqNr is 0 for an entity never written. It never goes down, not even after DeleteTo.
	LastSeqNr(ctx context.Context, id PersistenceID) (SeqNr, error)

	// DeleteTo removes events up to and including to, MaxSeqNr for all; a number above the last is held to the last.
	// Deleted numbers are never given out again. Repeating it, or naming an entity never written, is no error.
	DeleteTo(ctx context.Context, id PersistenceID, to SeqNr) error
}

// Skipper is an optional ability of a Store, for importers: an entity starts behind numbers that were deleted elsewhere.
type Skipper interface {
	// SkipTo makes the entity's last number n, as if 1 … n had been written and deleted. ErrConflict when the entity
	// has been written already.
	SkipTo(ctx context.Context, id PersistenceID, n SeqNr) error
}
