package plan

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Layout says how records are stored in tables.
type Layout interface {
	// Plan checks the layout's settings, reports everything that is wrong with them, and returns what the layout offers.
	Plan() (Offer, error)
}

// Offer is what a layout offers; a nil field is unsupported. The store has checked ids, numbers and limits before it calls.
type Offer struct {
	Name         string // of the layout
	Tables       []Table
	Capabilities annals.Capabilities
	Check        Check
	Row          Row // for every table of the layout, and those of StatesIn
	// On returns what the layout offers beside states. x runs the requests.
	On     func(x Executor) Contracts
	States States
	// SkipStateTo is for the states in States; nil where tombstones have no place.
	SkipStateTo Skip
	// StatesIn keeps the states of one entity type in a table of their own. Reserved are the names that additional columns of
	// states must not have.
	StatesIn func(entityType, table string) StateTable
	Reserved []string
	// Feed says how the stream of a table tells of events; nil where it does not.
	Feed *Feed
	// Additional, when not nil, is called with the name of each additional column of states, before Check.
	Additional func(column string)
}

// Contracts are those of annals that a layout implements itself; a nil field is unsupported, as the Capabilities say.
type Contracts struct {
	Journal   annals.Journal
	Snapshots annals.SnapshotStore
	Queries   annals.Query
	Offsets   annals.OffsetStore
	ability.Recoverer
	ability.Skipper
	ability.Forgetter
	// Audit is nil where Row tells everything.
	Audit Audit
	// Guard returns guards of which one fails when an append of id after n would be a conflict. n is the last number that was read, below
	// the greatest one. It is called where GuardsReads is claimed.
	Guard func(id annals.PersistenceID, n annals.SeqNr) ([]Guard, error)
}

// StateTable is a table that holds nothing but states, and what the layout offers in it.
type StateTable struct {
	Table  Table
	Check  Check // nil where there is nothing to check
	States States
	SkipTo Skip // as Offer.SkipStateTo
}

// Skip is ability.StateSkipper over an Executor.
type Skip func(ctx context.Context, x Executor, id annals.PersistenceID, n annals.SeqNr) error

// States is annals.StateStore over an Executor.
type States interface {
	Get(ctx context.Context, x Executor, id annals.PersistenceID) (annals.State, bool, error)
	Write(ctx context.Context, x Executor, w StateWrite) (annals.Receipt, error)
	// Guard returns a guard that fails when the state has another revision than n, which was read.
	Guard(id annals.PersistenceID, n annals.SeqNr) (Guard, error)
	// Read returns the state in an item that was found through an index, tombstones included; false for other items.
	Read(it Item) (annals.State, bool, error)
	// Tables are the tables that may have states.
	Tables() []string
}

// StateWrite is an annals.StateWrite with what the store adds to it.
type StateWrite struct {
	annals.StateWrite
	Deleted bool
	Time    time.Time
	Given   bool           // the caller chose the WriteID and may have tried before: an earlier try may have been stored
	Columns annals.Columns // additional attributes; nil for an entity type without any: then no attribute has to be kept
}
