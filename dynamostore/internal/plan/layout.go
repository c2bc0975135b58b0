package plan

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
)

// Layout says how records are stored in tables.
type Layout interface {
	Name() string
	// Plan checks the layout's settings, reports everything that is wrong with them, and returns what the layout offers.
	Plan() (Offer, error)
}

// Offer is what a layout offers; a nil field is unsupported. The store has checked ids, numbers and limits before it calls.
type Offer struct {
	Tables       []Table
	Capabilities annals.Capabilities
	// Check reports an error when what is stored does not fit the layout's settings. created says that the tables are new.
	Check     func(ctx context.Context, x Executor, created bool) error
	Journal   Journal
	Recover   Recover
	SkipTo    Skip
	Snapshots Snapshots
	States    States
	// SkipStateTo is for the states in States.
	SkipStateTo Skip
	Queries     Queries
	Offsets     Offsets
	Forget      func(ctx context.Context, x Executor, f annals.Forgetting) (bool, error)
	// StatesIn keeps the states of one entity type in a table of their own. Reserved are the names that additional columns of
	// states must not have.
	StatesIn func(entityType, table string) StateTable
	Reserved []string
	// Additional, when not nil, is called with the name of each additional column of states, before Check.
	Additional func(column string)
}

// StateTable is a table that holds nothing but states, and what the layout offers in it.
type StateTable struct {
	Table  Table
	Check  func(ctx context.Context, x Executor, created bool) error // as Offer.Check; nil where there is nothing to check
	States States
	SkipTo Skip // as Offer.SkipStateTo
}

// Journal is annals.Journal over an Executor.
type Journal interface {
	Append(ctx context.Context, x Executor, c annals.Commit) (annals.Receipt, error)
	Replay(ctx context.Context, x Executor, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error]
	LastSeqNr(ctx context.Context, x Executor, id annals.PersistenceID) (annals.SeqNr, error)
	DeleteTo(ctx context.Context, x Executor, id annals.PersistenceID, to annals.SeqNr) error
}

// Recover is annals.Recoverer over an Executor.
type Recover func(ctx context.Context, x Executor, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error)

// Skip is annals.Skipper or annals.StateSkipper over an Executor.
type Skip func(ctx context.Context, x Executor, id annals.PersistenceID, n annals.SeqNr) error

// Snapshots is annals.SnapshotStore over an Executor.
type Snapshots interface {
	Latest(ctx context.Context, x Executor, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error)
	Save(ctx context.Context, x Executor, s annals.Snapshot) error
	Delete(ctx context.Context, x Executor, id annals.PersistenceID, c annals.SnapshotCriteria) error
}

// States is annals.StateStore over an Executor.
type States interface {
	Get(ctx context.Context, x Executor, id annals.PersistenceID) (annals.State, bool, error)
	Write(ctx context.Context, x Executor, w StateWrite) (annals.Receipt, error)
	// Read returns the state in an item that was found through an index, tombstones included; false for other items.
	Read(it Item) (annals.State, bool, error)
	// Tables are the tables that may have states.
	Tables() []string
}

// Queries is annals.Query over an Executor.
type Queries interface {
	Events(ctx context.Context, x Executor, f annals.Filter) iter.Seq2[annals.Event, error]
	States(ctx context.Context, x Executor, f annals.Filter) iter.Seq2[annals.State, error]
	IDs(ctx context.Context, x Executor, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error]
	Newest(ctx context.Context, x Executor, f annals.Filter) (annals.Offset, error)
}

// Offsets is annals.OffsetStore over an Executor.
type Offsets interface {
	Load(ctx context.Context, x Executor, projection string, r annals.SliceRange) ([]annals.Offset, error)
	Handled(ctx context.Context, x Executor, projection string, id annals.PersistenceID) (annals.Offset, bool, error)
	Save(ctx context.Context, x Executor, p annals.Progress) error
	Reset(ctx context.Context, x Executor, projection string, r annals.SliceRange, to annals.Offset) error
}

// StateWrite is an annals.StateWrite with what the store adds to it.
type StateWrite struct {
	annals.StateWrite
	Deleted bool
	Time    time.Time
	Given   bool           // the caller chose the WriteID and may have tried before: an earlier try may have been stored
	Columns annals.Columns // additional attributes; nil for an entity type without any: then no attribute has to be kept
}
