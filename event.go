package annals

import "time"

// Payload is an encoded value. After it was handed over, by a caller or by a store, neither changes Data: both may keep it.
type Payload struct {
	SerializerID int32  // the format of Data; Akka's numbers where they exist. 0 is no payload: ErrInvalid in a write
	Manifest     string // which type, in which version; chosen by the user, never a Go type name
	Data         []byte
}

// NewEvent is an event about to be stored.
type NewEvent struct {
	Payload
	Tags     []string
	Metadata Payload // zero: none
	// Time is for importers: when the event was stored elsewhere. Zero is the store's clock. A store that claims EventTimes keeps it,
	// rounded down to microseconds, or to the unit that its document names. A time outside of the years 2 to 9999 is ErrInvalid, and so is
	// one that the store has no place for. A reader that follows events and has read past this time does not get the event: import before
	// readers start.
	Time    time.Time
	Adapter string // manifest of an Akka event adapter, for events of its tables; otherwise ""
}

// Commit is one atomic write to one entity. The store may keep payloads but does not touch the Events
// slice after Append returned, not even when ctx ended first: callers reuse it.
type Commit struct {
	ID       PersistenceID
	After    SeqNr      // the last SeqNr the writer knows: the optimistic lock, never optional
	Events   []NewEvent // stored all or none, numbered After+1 …
	Snapshot *Snapshot  // optional, of the state after the last event, stored with the events; see Capabilities
	WriteID  WriteID    // a new one for every write: two writes with the same WriteID count as one write that is repeated; zero: the store chooses one
}

// Receipt says what a write did.
type Receipt struct {
	SeqNr SeqNr     // of the last event, or the new revision: the After of the next write
	Time  time.Time // as stored: of the state, or of every event of the commit that has no NewEvent.Time; zero for an Append without Capabilities.Times
	// Repeated means that an earlier try with this WriteID had been stored. SeqNr and Time are those of that try, but when a DeleteTo
	// has removed all of its events, Time may be later: that of the delete.
	Repeated bool
}

// Event is a stored event.
type Event struct {
	ID    PersistenceID
	SeqNr SeqNr
	Time  time.Time // when it was stored, UTC, by the store's clock in microseconds, or NewEvent.Time; zero without Capabilities.Times
	Payload
	Tags     []string
	Metadata Payload
	Adapter  string
	WriteID  WriteID // zero when the store's table does not keep it
}

// Offset is the place of e in the order of Query.
func (e Event) Offset() Offset { return Offset{Time: e.Time, ID: e.ID, SeqNr: e.SeqNr} }
