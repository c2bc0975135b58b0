package annals

import "context"

// Store is one backend. All of it may be used from many goroutines at once. What a backend lacks answers
// ErrUnsupported; authors embed Unsupported and override what they have.
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
	Metadata         bool // kept; dropped elsewhere
	EventTimes       bool // NewEvent.Time is kept; the store's clock is used elsewhere
	TagQueries       bool // Filter.Tag; ErrUnsupported elsewhere
	StateEvents      bool // StateWrite.Event; ErrUnsupported elsewhere
	IdempotentState  bool // Put and Delete recognise a repeated WriteID
	OrderedFeed      bool // events become visible in the order of Offset: followers need not look back
	Repeatable       bool // Append recognises a repeated WriteID
	FenceAfterDelete bool // a writer behind a DeleteTo still gets ErrConflict
	Forgets          bool // what a Forgetter does; ErrUnsupported elsewhere

	Limits Limits
}

// Limits are what a store demands of writers. Zero is no limit.
type Limits struct {
	MaxEvents     int  // per Commit
	MaxBytes      int  // of payloads and metadata per write: a Commit, a StateWrite or a Snapshot
	MaxIDBytes    int  // of a PersistenceID
	FirstSnapshot bool // the first Commit of an entity must carry a Snapshot (tables of the event-store-adapter family)
}

// Transactor is an ability of SQL and DynamoDB stores: the caller's writes in the store's own transaction.
// T is *sql.Tx, pgx.Tx or *dynamostore.Tx.
type Transactor[T any] interface {
	// InTx runs fn in one transaction: tx is the driver's, in is this store writing into it. All of it is
	// committed when fn returns nil, nothing otherwise. fn runs once; in is dead afterwards (ErrClosed). Writing to the
	// outer store with fn's ctx is ErrInvalid (and not a deadlock). On DynamoDB a conflict shows when InTx returns.
	InTx(ctx context.Context, fn func(ctx context.Context, tx T, in Store) error) error
}
