package annals

import (
	"context"
	"time"
)

// State is the stored durable state of an entity. A tombstone has Deleted set and no payload.
type State struct {
	ID       PersistenceID
	Revision SeqNr // counts writes, deletes included
	Time     time.Time
	Payload
	Tags     []string
	Metadata Payload // of the write; zero = none
	Deleted  bool
}

// Offset is the place of s in the order of Query.
func (s State) Offset() Offset { return Offset{Time: s.Time, ID: s.ID, SeqNr: s.Revision} }

// StateWrite replaces one entity's state, or deletes it.
type StateWrite struct {
	ID    PersistenceID
	After SeqNr // the last revision the writer knows, never optional
	Payload
	Tags     []string
	Metadata Payload // zero = none; a tombstone keeps it too
	// Event is optional: stored in the same transaction in the entity's journal, numbered as the revision. Then every
	// write of the entity must carry one: ErrInvalid when the journal's last number is not After.
	Event   *NewEvent
	WriteID WriteID // as in Commit
	// FirstTry promises that no earlier try with this WriteID can have been stored. Then a write that is older than the writes which the
	// store remembers is ErrConflict and not ErrUnknown.
	FirstTry bool
}

// StateStore keeps one current value per entity. Its methods may be called from many goroutines at once.
type StateStore interface {
	// Get returns false for an entity never written and for a tombstone, whose Revision is filled all the same.
	Get(ctx context.Context, id PersistenceID) (State, bool, error)
	// Put stores revision After+1. It is ErrConflict when the last revision is not After, unless an earlier try with the same WriteID
	// and After was stored: then Put succeeds, with Receipt.Repeated. A store remembers the last four writes of an entity. An older
	// write with a WriteID is ErrUnknown, since it may have been stored; with FirstTry it is ErrConflict.
	Put(ctx context.Context, w StateWrite) (Receipt, error)
	// Delete leaves a tombstone at revision After+1, so that revisions never repeat. w.Payload is ignored. The errors
	// are those of Put. A store that cannot keep the revision does not claim Capabilities.DeletesStates: Delete is ErrUnsupported.
	Delete(ctx context.Context, w StateWrite) (Receipt, error)
}

// Columns are values for additional columns of a state. A column without a key keeps its value; nil stores NULL. Values are string, int64,
// float64, bool, []byte or time.Time.
type Columns map[string]any

// StateType is what is special about the durable states of one entity type in one store; T is the store's transaction.
// codec.Columns and codec.OnChange make the two functions from typed ones.
type StateType[T any] struct {
	Table    string                                         // custom table, "": the common one
	Columns  []string                                       // additional columns, checked when the store opens
	Bind     func(s State) (Columns, error)                 // their values; not called for a delete
	OnChange func(ctx context.Context, tx T, s State) error // runs in the transaction of every write, on DynamoDB before it; an error undoes both
}
