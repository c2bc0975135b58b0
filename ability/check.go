package ability

import (
	"cmp"
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// Code names a kind of damage. Package verify has a table of what each means for readers, and what to do.
type Code string

// The kinds of damage.
const (
	Hole       Code = "hole"       // numbers without events that readers take for unused, although no mark proves it: no damage where another system left them
	Missing    Code = "missing"    // events are lost
	Doubled    Code = "doubled"    // a number is stored twice
	Incomplete Code = "incomplete" // a part of a commit is lost
	Unreadable Code = "unreadable" // an event cannot be read
	Checksum   Code = "checksum"   // a row does not fit its checksum
	Head       Code = "head"       // what tells the last number of an entity is lost or wrong
	Snapshot   Code = "snapshot"   // a snapshot cannot be read
	Orphan     Code = "orphan"     // a snapshot, or a part of one, without what belongs to it
	State      Code = "state"      // a durable state cannot be read, or its revision is wrong
	Key        Code = "key"        // a row is under the key, slice, type or table of another entity
	File       Code = "file"       // the database says that its file is damaged
	Index      Code = "index"      // an index, by which queries read, does not have a row at its place
)

// Damage is something that is wrong with what a store has, or may be. Stores return it, with further text around it, as the cause of ErrCorrupt. It
// is not changed after it was made.
type Damage struct {
	Code     Code                 // "" in an error: that of what was read
	ID       annals.PersistenceID // of the entity; "" where the rows do not tell
	From, To annals.SeqNr         // the numbers of events, or the number of a snapshot, or revisions; 0 where none is known
	Err      error                // what was found, without payloads
}

// Error is what was found.
func (d *Damage) Error() string { return d.Err.Error() }

// Unwrap returns Err.
func (d *Damage) Unwrap() error { return d.Err }

// Compare orders damage by codes, ids and numbers. It is 0 where d and e say the same, whatever their texts are.
func (d *Damage) Compare(e *Damage) int {
	return cmp.Or(cmp.Compare(d.Code, e.Code), cmp.Compare(d.ID, e.ID), cmp.Compare(d.From, e.From), cmp.Compare(d.To, e.To))
}

// Stored is a payload that a Checker has read.
type Stored struct {
	Kind    StoredKind
	SeqNr   annals.SeqNr // of the event or the snapshot, or the revision
	Payload annals.Payload
}

// StoredKind says what a payload is of.
type StoredKind string

// The kinds of payloads.
const (
	StoredEvent    StoredKind = "event"
	StoredSnapshot StoredKind = "snapshot"
	StoredState    StoredKind = "state"
)

// Checker is an optional ability of a Store.
type Checker interface {
	// Check reads all events, snapshots and the state of id, and returns what is wrong with them and with the rows that they are in, each once and in the order
	// of Damage.Compare; nil when nothing is. What the store cannot go on behind hides what follows. see, if it is not nil, is called for each payload that was read, and
	// again where the read had to begin again. A store that is strict is checked as one that is not.
	//
	// Several requests are made, so a write at the same time can look like damage: call Check again, and count what both calls return.
	Check(ctx context.Context, id annals.PersistenceID, see func(Stored)) ([]*Damage, error)
}

// Scanned is a step of a Scan.
type Scanned struct {
	ID     annals.PersistenceID // of an entity; "" where there is only Damage
	After  string               // for a Scan that goes on behind this step
	Damage []*Damage            // of what belongs to no entity, or is not found from one
}

// Scanner is an optional ability of a Store.
type Scanner interface {
	// Scan yields the id of each entity of which there is a row, also if queries and Query.IDs do not find it, and ids in which the library keeps
	// its own data. entityType "" is any type. It begins behind the step whose After is after, or at the beginning. A store that spreads an
	// entity over several places may yield its id again. An after that no Scan of the store can have yielded is
	// ErrInvalid, and so is an entityType that no entity can have.
	Scan(ctx context.Context, entityType, after string) iter.Seq2[Scanned, error]
}
