package annals

import "context"

// Store is one backend. All of it may be used from many goroutines at once. What a backend lacks answers
// ErrUnsupported. Package driver makes a Store of a backend.
type Store interface {
	Journal() Journal
	Snapshots() SnapshotStore
	States() StateStore
	Query() Query
	Offsets() OffsetStore
	Capabilities() Capabilities
	Close() error // waits for what is in flight; later calls answer ErrClosed
}

// Capabilities are a store's claims, and storetest holds it to them both ways. False is always the weaker claim.
type Capabilities struct {
	Events       bool // Journal
	Snapshots    bool // SnapshotStore
	States       bool // StateStore
	EventQueries bool // Query.Events, IDs and Newest
	StateQueries bool // Query.States
	Offsets      bool // OffsetStore

	CommitSnapshot   bool // Commit.Snapshot; ErrUnsupported elsewhere, where hosts Save after the commit
	ManySnapshots    bool // older snapshots stay beside the newest
	Tags             bool // kept; dropped elsewhere
	Metadata         bool // of events and snapshots: kept; dropped elsewhere
	StateMetadata    bool // StateWrite.Metadata is kept; dropped elsewhere
	EventTimes       bool // NewEvent.Time is kept; the store's clock is used elsewhere
	TagQueries       bool // Filter.Tag; ErrUnsupported elsewhere
	StateEvents      bool // StateWrite.Event; ErrUnsupported elsewhere
	IdempotentState  bool // Put and Delete recognise a repeated WriteID
	OrderedFeed      bool // events without a NewEvent.Time become visible in the order of Offset: followers need not look back
	Repeatable       bool // Append recognises a repeated WriteID
	FenceAfterDelete bool // a writer whose After is older than a DeleteTo still gets ErrConflict
	Forgets          bool // what a Forgetter does; ErrUnsupported elsewhere

	Limits Limits
}

// Limits are what a store demands of writers. Zero is no limit.
type Limits struct {
	MaxEvents     int  // per Commit
	MaxBytes      int  // per write, a Commit, a StateWrite or a Snapshot: payloads and metadata with their manifests, tags, adapters
	MaxIDBytes    int  // of a PersistenceID
	MaxIDChars    int  // of a PersistenceID, in characters (code points), where its column counts those
	FirstSnapshot bool // the first Commit of an entity must carry a Snapshot (tables of the event-store-adapter family)
}

// Transactor is an ability of SQL and DynamoDB stores: the caller's writes in the store's own transaction.
// T is *sql.Tx, pgx.Tx or *dynamostore.Tx.
type Transactor[T any] interface {
	// InTx runs fn in one transaction: tx is the driver's transaction, and in is this store reading and writing in it. Everything is
	// committed when fn returns nil, nothing otherwise. fn runs once; calls of in after fn has returned are ErrClosed. A call of in that
	// fails leaves the transaction as it was: fn may go on.
	//
	// With fn's ctx, which ContextInTx recognises, the outer store can be read, as it was before the transaction. A write to the outer
	// store, or a command to a runtime on it, is ErrInvalid: it would wait for the transaction, which waits for fn. On DynamoDB a
	// conflict shows when InTx returns.
	InTx(ctx context.Context, fn func(ctx context.Context, tx T, in Store) error) error
}
