package annals

import (
	"time"
)

// Store is one backend. All of its methods, and the values that they return, may be used from many goroutines at once. What a backend does
// not have is ErrUnsupported. Package driver makes a Store of a backend.
type Store interface {
	Journal() Journal
	Snapshots() SnapshotStore
	States() StateStore
	Query() Query
	Offsets() OffsetStore
	Capabilities() Capabilities
	Close() error // waits for the calls in progress; later calls are ErrClosed
}

// Capabilities are what a store claims. Package storetest checks that each claim holds, and that what is not claimed is refused or dropped
// as said below. False is always the weaker claim. What is an interface of package ability is not claimed here: ability.Of asks for it.
type Capabilities struct {
	Events       bool // Journal
	Snapshots    bool // SnapshotStore
	States       bool // StateStore
	EventQueries bool // Query.Events and Newest
	StateQueries bool // Query.States
	IDQueries    bool // Query.IDs
	Offsets      bool // OffsetStore

	CommitSnapshot   bool // Commit.Snapshot; without the claim it is ErrUnsupported, and hosts save snapshots after the commit
	ManySnapshots    bool // older snapshots stay beside the newest
	Tags             bool // are stored; without the claim they are dropped
	Metadata         bool // of events and snapshots is stored; without the claim it is dropped
	StateMetadata    bool // StateWrite.Metadata is stored; without the claim it is dropped
	Times            bool // events have the time at which they were stored; without the claim Event.Time, and Receipt.Time of an Append, are zero
	EventTimes       bool // NewEvent.Time is stored; without the claim events get the time of the store's clock, if Times is claimed
	SnapshotQueries  bool // Query.Snapshots
	TagQueries       bool // Filter.Tag; without the claim it is ErrUnsupported
	DeletesStates    bool // StateStore.Delete, which keeps the revision; without the claim it is ErrUnsupported, and so is a decision to delete in a host
	StateEvents      bool // StateWrite.Event; without the claim it is ErrUnsupported
	IdempotentState  bool // Put and Delete recognise a repeated WriteID
	Repeatable       bool // Append recognises a repeated WriteID
	FenceAfterDelete bool // a writer whose After is older than a DeleteTo still gets ErrConflict
	SpreadSlices     bool // runners of projections divide the slices by SpreadRanges; without the claim by SliceRanges, as the JVM's do
	GuardsReads      bool // a transaction of ability.Transactor is ErrConflict when an entity that it has read was changed before its commit

	// Lateness is the most time after its own time at which an event or state becomes visible to queries. Zero says that they become visible
	// in the order of Offset. Others can appear before an Offset that a reader has seen already: see Query.Watermark. Events with a
	// NewEvent.Time are not meant.
	Lateness time.Duration

	Limits Limits
}

// Limits are the limits of writes to a store. Zero is no limit.
type Limits struct {
	MaxEvents     int  // per Commit
	MaxBytes      int  // per write, a Commit, a StateWrite or a Snapshot: payloads and metadata with their manifests, tags, adapters
	MaxIDBytes    int  // of a PersistenceID
	MaxIDChars    int  // of a PersistenceID, in characters (code points), for columns that count characters
	MaxOffsets    int  // per Progress
	FirstSnapshot bool // the first Commit of an entity must carry a Snapshot (tables of the event-store-adapter family)
}
