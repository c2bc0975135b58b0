package commit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/offsets"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/timeline"
	"github.com/annals-go/annals/internal/clock"
)

// Layout is the default layout: one item is one commit. The zero Layout works.
type Layout struct {
	Table string // "" = "annals"
	// Index is the name of a global secondary index for queries across entities. "" is no index; then queries are ErrUnsupported.
	// With an index a write takes twice the write units, and events have the time of their commit. A table keeps the choice that
	// it was created with, unless FillIndex changes it.
	Index string
	// FillIndex makes Open accept a table that was created without Index and has been given the index since. Open then puts
	// everything stored into the index. That takes long; it can be interrupted and started again. Meanwhile and afterwards nothing
	// may write to the table without Index.
	FillIndex bool
	// Lateness becomes the claim Capabilities.Lateness of a table with an index: it is the sum of how far the clocks of writers and
	// readers differ, of how far the index may lag, and of how long a write keeps its time: 10 seconds, and 25 seconds for a transaction
	// whose answer was lost. 0 is 30 seconds. Less than 10 seconds is ErrInvalid. Without an Index it must be 0.
	Lateness time.Duration
}

const (
	layoutName   = "commit"
	lateness     = 30 * time.Second // the default of Layout.Lateness: three tries of a request
	format       = 1                // of all items but the tombstones of snapshots
	formatGone   = 2                // of the tombstones of snapshots. Later versions of this package may have higher formats
	formatSpread = 2                // of the settings of a table with an index, which has the groups of annals.SpreadRanges
	maxIDBytes   = 2048
)

// Plan implements dynamostore.Layout. Programs do not call it.
func (l Layout) Plan() (plan.Offer, error) {
	return l.plan(plan.MaxItemBytes, func(save []byte) { _, _ = rand.Read(save) }) // never fails, as crypto/rand documents
}

func (l Layout) plan(itemBytes int, newSave func([]byte)) (plan.Offer, error) {
	t := &table{name: cmp.Or(l.Table, "annals"), index: l.Index, fill: l.FillIndex, itemBytes: itemBytes, newSave: newSave,
		stateTables: map[string]string{}, depths: &depths{plan.Recent[string, int]{Most: 1000}}, times: &plan.Times{}}
	t.types = &timeline.Types{Table: t.name, Key: settingsKey(), Attribute: attrTypes, Always: attrFormat}
	queries := t.timeline(cmp.Or(l.Lateness, lateness))
	if l.FillIndex && l.Index == "" {
		return plan.Offer{}, errors.New("FillIndex has no Index")
	}
	if l.Lateness < 0 || l.Lateness > 0 && l.Lateness < plan.StampedFor {
		return plan.Offer{}, fmt.Errorf("Lateness is %v: it must be at least %v, for which a write keeps its time", l.Lateness, plan.StampedFor)
	}
	if l.Lateness > 0 && l.Index == "" {
		return plan.Offer{}, errors.New("Lateness has no Index")
	}
	offer := plan.Offer{
		Name:   layoutName,
		Tables: []plan.Table{t.shape()},
		Capabilities: annals.Capabilities{
			Events: true, Snapshots: true, States: true, Offsets: true,
			CommitSnapshot: true, ManySnapshots: true, Tags: true, Metadata: true, StateMetadata: true, Times: true, EventTimes: true,
			DeletesStates: true, StateEvents: true, IdempotentState: true, Repeatable: true, FenceAfterDelete: true, GuardsReads: true,
			Limits: annals.Limits{MaxIDBytes: maxIDBytes, MaxOffsets: offsets.Most},
		},
		Check: t.check,
		Row:   t.owned,
		On: func(x plan.Executor) plan.Contracts {
			t := t.on(x)
			return plan.Contracts{Journal: t, Snapshots: t, Queries: queries.On(x), Offsets: offsets.Store{Table: t.name, Hash: attrID, Range: attrSeq, MaxHash: maxIDBytes, NewSave: newSave, Executor: x}, Recoverer: t, Skipper: t, Forgetter: t, Guard: t.guard, Audit: t.audit}
		},
		States:      states{t.name, t},
		SkipStateTo: states{t.name, t}.SkipTo,
		StatesIn:    t.statesIn,
		Reserved:    reserved,
		Feed:        t.changes(),
	}
	offer.Tables[0].Stream = true
	if t.index != "" {
		c := &offer.Capabilities
		c.EventQueries, c.StateQueries, c.IDQueries, c.TagQueries, c.SpreadSlices = true, true, true, true, true
		c.Lateness = queries.Lateness
		c.EventTimes = false // the index has the time of the commit, and offsets are in the order of times
		c.Limits.MaxIDBytes = timeline.MaxIDBytes
	}
	return offer, nil
}

// table is a table of the layout. It is its journal and its snapshots.
type table struct {
	plan.Reads
	name   string
	index  string // "" is none
	fill   bool   // Layout.FillIndex
	types  *timeline.Types
	depths *depths
	times  *plan.Times
	x      plan.Executor // runs the requests; nil until on

	itemBytes   int               // the most bytes in the item of a snapshot, and in an item of its parts
	newSave     func([]byte)      // sets the id of a save
	stateTables map[string]string // tables of states, by entity type; for other types it is this table
}

// on returns t with the executor of its requests.
func (t *table) on(x plan.Executor) *table {
	own := *t
	own.x = x
	own.Reads = func(id annals.PersistenceID) driver.Reader { return &reader{table: &own, id: id} }
	return &own
}

// timeline describes the index.
func (t *table) timeline(lateness time.Duration) *timeline.Index {
	return &timeline.Index{Table: t.name, Name: t.index, StateTable: t.statesOf, Hash: attrFeed, Time: attrTime, ID: attrID, HasEvents: attrEvents,
		StateFields: []string{attrID, attrSeq, attrFormat, attrTime, attrRevision, attrTags, attrDeleted, attrSerializer, attrManifest},
		EventsIn:    eventsIn, StateIn: func(it plan.Item) (annals.State, error) { st, _, err := readState(it); return st, err },
		Types: t.types, Lateness: lateness, Clock: &clock.Guard{}}
}

// eventsIn calls add for the events of a commit, with the time of the commit.
func eventsIn(id annals.PersistenceID, it plan.Item, add func(annals.Event)) error {
	rec, err := read(id, it)
	if err != nil {
		return err
	}
	all, err := rec.events(nil, 1, annals.MaxSeqNr)
	for _, e := range all {
		e.Time = rec.at
		add(e)
	}
	return err
}

// announce makes the type of id known to queries before anything of id is written.
func (t *table) announce(ctx context.Context, id annals.PersistenceID) error {
	if t.index == "" {
		return nil
	}
	return t.types.Announce(ctx, t.x, id.Type())
}

// shape describes every table of the layout.
func (t *table) shape() plan.Table {
	shape := plan.Table{Name: t.name, Hash: plan.Key{Name: attrID}, Range: plan.Key{Name: attrSeq, Number: true}}
	if t.index != "" {
		shape.Indexes = []plan.Index{t.timeline(0).Shape()}
	}
	return shape
}

// check compares the settings with those that the table was created with, and stores them in a new table.
func (t *table) check(ctx context.Context, x plan.Executor, created bool) error {
	t = t.on(x)
	for {
		it, ok, err := t.x.Get(ctx, plan.Get{Table: t.name, Key: settingsKey()})
		if err != nil {
			return err
		}
		if ok {
			return t.checkSettings(ctx, it)
		}
		if !created {
			if rows, err := t.x.Scan(ctx, t.name, 1); err != nil {
				return err
			} else if len(rows) > 0 {
				return plan.Misfit("table %q holds items, but no settings of this layout", t.name)
			}
		}
		it = settingsKey()
		it[attrFormat], it[attrLayout] = plan.N(format), plan.S(layoutName)
		if t.index != "" {
			it[attrFormat], it[attrIndex] = plan.N(formatSpread), plan.S(t.index)
		}
		if _, err := plan.Try(ctx, t.x, plan.Create(t.name, it, attrID)); err != nil { // or another process has stored settings meanwhile: read them
			return err
		}
	}
}

func (t *table) checkSettings(ctx context.Context, it plan.Item) error {
	if name, _ := plan.Text(it, attrLayout); name != layoutName {
		return plan.Misfit("table %q is of layout %q", t.name, name)
	}
	index, _ := plan.Text(it, attrIndex)
	want := int64(format)
	if index != "" {
		want = formatSpread
	}
	if n, _ := plan.Number(it, attrFormat); n != want {
		return plan.Misfit("table %q has format %d, this version reads %d", t.name, n, want)
	}
	missing := index == "" && t.index != "" || plan.Flag(it, attrFilling)
	switch {
	case missing && t.fill:
		if err := t.fillIndex(ctx); err != nil {
			return err
		}
		return t.check(ctx, t.x, false)
	case index != t.index:
		return plan.Misfit("table %q was created with the index %q for queries, not with %q: Index (index= in a URL) names that of the table; FillIndex adds one", t.name, index, t.index)
	case missing:
		return plan.Misfit("the index %q of table %q is not yet filled", index, t.name)
	}
	if t.name == t.types.Table {
		t.types.Learn(it)
	}
	return nil
}
