package annals

import (
	"context"
	"iter"
)

// Journal is the append-only log of every entity in one store. Its methods may be called from many goroutines at once.
type Journal interface {
	// Append stores c whole or not at all. It is ErrConflict when the entity's last number is not c.After, unless an earlier try with
	// the same WriteID and After was stored: then Append succeeds, with Receipt.Repeated. A commit that is wrong in itself is
	// ErrInvalid or ErrTooLarge before anything is written. ErrUnknown means that the commit may have been stored: send the identical
	// commit again. The types of ids that begin with "annals." are those of the library, and have no events: ErrInvalid.
	//
	// c.After is a number that the writer got from the store, by a receipt, a recovery or LastSeqNr. A number above the entity's last is
	// ErrConflict on memory, SQLite and PostgreSQL, and in the layout esa of dynamostore. The other layouts on DynamoDB
	// only check that the next number is free: there such a commit is stored after a hole, and from then on a replay or recovery with
	// events before and after the hole is ErrCorrupt. The layout akka0 does not notice holes.
	Append(ctx context.Context, c Commit) (Receipt, error)

	// Replay yields the events from ≤ SeqNr ≤ to that are not deleted, in order: every event acknowledged before the call, and perhaps
	// later ones. Deleted numbers are missing before the first event yielded. A hole after it is ErrTruncated when a DeleteTo made it
	// during the replay, also when no event follows. Any other hole is ErrCorrupt, except numbers that another system left unused, or whose
	// events it deleted alone, in a table that it shares: Result.Unused counts those for which that is not certain. An error comes once,
	// last, with a zero Event. The store holds no lock or connection while the body of the loop runs: the body may write to the same store,
	// and may leave the loop at any event.
	Replay(ctx context.Context, id PersistenceID, from, to SeqNr) iter.Seq2[Event, error]

	// LastSeqNr is 0 for an entity never written. It never goes down, not even after DeleteTo.
	LastSeqNr(ctx context.Context, id PersistenceID) (SeqNr, error)

	// DeleteTo removes events up to and including to; MaxSeqNr, or any number above the last, removes all. Deleted numbers are never
	// used again. DeleteTo may be repeated, and an entity that was never written is no error.
	DeleteTo(ctx context.Context, id PersistenceID, to SeqNr) error
}
