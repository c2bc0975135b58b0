package commit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout is the default layout: one item is one commit. The zero Layout works.
type Layout struct {
	Table string // "" = "annals"
	// Index is the name of a global secondary index for queries across entities, "" for none: then annals.Query is
	// ErrUnsupported. It costs a second write unit per kilobyte, and events have the time of their commit. A table keeps the
	// choice it was created with, unless FillIndex changes it.
	Index string
	// FillIndex lets Open take a table that was created without Index and has got it since: it puts everything stored into
	// the index, which takes long, and may be broken off and begun again. Nobody may write without Index meanwhile, or
	// later.
	FillIndex bool
}

const (
	defaultTable = "annals"
	format       = 1 // of every item but
	formatGone   = 2 // the tombstones of snapshots; higher ones are of a later version of this package
	maxIDBytes   = 2048
	maxFeedBytes = 2048 // of the index's hash key

	maxIndexedIDBytes = maxFeedBytes - len("#00 state") // an id's type is in the index's hash key
)

// Name is "commit".
func (Layout) Name() string { return "commit" }

// Plan is dynamostore.Layout.
func (l Layout) Plan() (plan.Offer, error) {
	return l.plan(plan.MaxItemBytes, func(save []byte) { _, _ = rand.Read(save) }) // never fails, as crypto/rand documents
}

func (l Layout) plan(itemBytes int, newSave func([]byte)) (plan.Offer, error) {
	t := &table{name: l.Table, index: l.Index, fill: l.FillIndex, itemBytes: itemBytes, newSave: newSave, stateTables: map[string]string{}}
	if t.name == "" {
		t.name = defaultTable
	}
	t.types = &entityTypes{table: t.name}
	if l.FillIndex && l.Index == "" {
		return plan.Offer{}, errors.New("FillIndex has no Index")
	}
	offer := plan.Offer{
		Tables: []plan.Table{t.shape()},
		Capabilities: annals.Capabilities{
			Events: true, Snapshots: true, States: true, Offsets: true,
			CommitSnapshot: true, ManySnapshots: true, Tags: true, Metadata: true, StateMetadata: true, EventTimes: true,
			StateEvents: true, IdempotentState: true, Repeatable: true, FenceAfterDelete: true, Forgets: true,
			Limits: annals.Limits{MaxIDBytes: maxIDBytes},
		},
		Check:       t.check,
		Journal:     t,
		Recover:     t.Recover,
		SkipTo:      t.SkipTo,
		Forget:      t.Forget,
		Offsets:     offsets{t},
		Snapshots:   t,
		States:      states{t.name, t},
		SkipStateTo: states{t.name, t}.SkipTo,
		StatesIn:    t.statesIn,
		Reserved:    reserved,
	}
	offer.Tables[0].Stream = true
	if t.index != "" {
		offer.Queries = queries{t}
		c := &offer.Capabilities
		c.EventQueries, c.StateQueries, c.TagQueries = true, true, true
		c.EventTimes = false // the index has a commit's time, and the order of Offset is that of times
		c.Limits.MaxIDBytes = maxIndexedIDBytes
	}
	return offer, nil
}

// table is the layout at work: plan.Journal and plan.Snapshots.
type table struct {
	name   string
	index  string // "" = none
	fill   bool   // it may have to be filled first
	types  *entityTypes
	depths depths
	times  plan.Times

	itemBytes   int               // of a snapshot that is stored as it is, and of a part of one that is not
	newSave     func([]byte)      // fills in the id of a save
	stateTables map[string]string // of the entity types whose states have a table of their own
}

// shape is what every table of the layout looks like.
func (t *table) shape() plan.Table {
	shape := plan.Table{Name: t.name, Hash: plan.Key{Name: attrID}, Range: plan.Key{Name: attrSeq, Number: true}}
	if t.index != "" {
		shape.Indexes = []plan.Index{{Name: t.index, Hash: plan.Key{Name: attrFeed}, Range: plan.Key{Name: attrTime, Number: true}}}
	}
	return shape
}

// check reads the settings with which the table was begun, or writes them into a new one.
func (t *table) check(ctx context.Context, x plan.Executor, created bool) error {
	for {
		it, ok, err := x.Get(ctx, plan.Get{Table: t.name, Key: settingsKey()})
		if err != nil {
			return err
		}
		if ok {
			return t.checkSettings(ctx, x, it)
		}
		if !created {
			if rows, err := x.Scan(ctx, t.name, 1); err != nil {
				return err
			} else if len(rows) > 0 {
				return fault("table %q holds items, but no settings of this layout", t.name)
			}
		}
		it = settingsKey()
		it[attrFormat], it[attrLayout] = plan.N(format), plan.S(Layout{}.Name())
		if t.index != "" {
			it[attrIndex] = plan.S(t.index)
		}
		if _, err := x.Write(ctx, plan.Write{
			Ops:     []plan.Op{{Table: t.name, Put: it, Condition: absent, Names: idName}},
			Refused: func([]plan.Item, bool) error { return nil }, // another process was first: read what it wrote
		}); err != nil {
			return err
		}
	}
}

func (t *table) checkSettings(ctx context.Context, x plan.Executor, it plan.Item) error {
	if name, _ := plan.Text(it, attrLayout); name != (Layout{}).Name() {
		return fault("table %q is of layout %q", t.name, name)
	}
	if n, _ := plan.Number(it, attrFormat); n != format {
		return fault("table %q has format %d, this version reads %d", t.name, n, format)
	}
	index, _ := plan.Text(it, attrIndex)
	missing := index == "" && t.index != "" || plan.Flag(it, attrFilling)
	switch {
	case missing && t.fill:
		if err := t.fillIndex(ctx, x); err != nil {
			return err
		}
		return t.check(ctx, x, false)
	case index != t.index:
		return fault("table %q was created with the index %q for queries, not with %q", t.name, index, t.index)
	case missing:
		return fault("filling the index %q of table %q has not come to its end", index, t.name)
	}
	if t.name == t.types.table {
		t.types.learn(it)
	}
	return nil
}

func fault(text string, args ...any) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf(text, args...)}
}
