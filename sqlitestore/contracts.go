package sqlitestore

import (
	"context"

	"github.com/annals-go/annals"
)

// session is where the contracts read and write: the Store at large, or inside one transaction. All errors are
// *annals.Error.
type session interface {
	// read runs fn with statements that see everything committed, and in a transaction what it has written so far.
	read(ctx context.Context, c annals.Call, fn func(context.Context, *statements) error) error
	// readTx is read where all statements of fn see the same moment.
	readTx(ctx context.Context, c annals.Call, fn func(context.Context, *statements) error) error
	// write runs j.apply in a transaction, shared with others or not, and returns when it has been committed.
	write(ctx context.Context, c annals.Call, j *write) error
	// alone is write with a transaction of its own, for what runs the user's code.
	alone(ctx context.Context, c annals.Call, fn func(context.Context, *transaction) error) error
}

// contracts are the parts of an annals.Store on one session.
type contracts struct {
	session
	*shared
}

// shared is what all sessions of a store have in common.
type shared struct {
	types    stateTypes
	observer annals.Observer
}

// Journal is the event log.
func (c *contracts) Journal() annals.Journal { return journal{c} }

// Snapshots keeps one snapshot per entity.
func (c *contracts) Snapshots() annals.SnapshotStore { return snapshots{c} }

// States keeps the durable states.
func (c *contracts) States() annals.StateStore { return states{c} }

// Query reads across entities.
func (c *contracts) Query() annals.Query { return query{c} }

// Offsets keeps the progress of projections.
func (c *contracts) Offsets() annals.OffsetStore { return offsets{c} }

// Capabilities claim everything but ManySnapshots.
func (c *contracts) Capabilities() annals.Capabilities {
	return annals.Capabilities{
		Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, Offsets: true,
		CommitSnapshot: true, Tags: true, Metadata: true, StateMetadata: true, EventTimes: true, TagQueries: true, StateEvents: true, IdempotentState: true,
		OrderedFeed: true, Repeatable: true, FenceAfterDelete: true, Forgets: true,
		Limits: limits,
	}
}

var limits = annals.Limits{MaxEvents: MaxEvents, MaxBytes: MaxBytes, MaxIDBytes: MaxIDBytes}
