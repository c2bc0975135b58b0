package commit

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout is the default layout: one item is one commit. The zero Layout works.
type Layout struct {
	Table string // "" = "annals"
}

const (
	defaultTable = "annals"
	format       = 1 // of every item; higher ones are of a later version of this package
	maxIDBytes   = 2048
)

// Name is "commit".
func (Layout) Name() string { return "commit" }

// Plan is dynamostore.Layout.
func (l Layout) Plan() (plan.Rooms, error) {
	t := &table{name: l.Table}
	if t.name == "" {
		t.name = defaultTable
	}
	return plan.Rooms{
		Tables: []plan.Table{{Name: t.name, Hash: plan.Key{Name: attrID}, Range: plan.Key{Name: attrSeq, Number: true}, Stream: true}},
		Capabilities: annals.Capabilities{
			Events: true, Snapshots: true, States: true,
			CommitSnapshot: true, ManySnapshots: true, Tags: true, Metadata: true, EventTimes: true,
			StateEvents: true, IdempotentState: true, Repeatable: true, FenceAfterDelete: true,
			Limits: annals.Limits{MaxIDBytes: maxIDBytes},
		},
		Check:     t.check,
		Journal:   t,
		Recover:   t.Recover,
		SkipTo:    t.SkipTo,
		Snapshots: t,
		States:    t,
		Columns:   true,
		Reserved:  reserved,
	}, nil
}

// table is the layout at work: plan.Journal, plan.Snapshots and plan.States.
type table struct {
	name  string
	depth depth
}

// check reads the settings with which the table was begun, or writes them into a new one.
func (t *table) check(ctx context.Context, x plan.Executor, created bool) error {
	for {
		it, ok, err := x.Get(ctx, plan.Get{Table: t.name, Key: settingsKey()})
		if err != nil {
			return err
		}
		if ok {
			return t.checkSettings(it)
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
		if _, err := x.Write(ctx, plan.Write{
			Ops:     []plan.Op{{Table: t.name, Put: it, Condition: absent, Names: idName}},
			Refused: func([]plan.Item, bool) error { return nil }, // another process was first: read what it wrote
		}); err != nil {
			return err
		}
	}
}

func (t *table) checkSettings(it plan.Item) error {
	if name, _ := plan.Text(it, attrLayout); name != (Layout{}).Name() {
		return fault("table %q is of layout %q", t.name, name)
	}
	if n, _ := plan.Number(it, attrFormat); n != format {
		return fault("table %q has format %d, this version reads %d", t.name, n, format)
	}
	return nil
}

func fault(text string, args ...any) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf(text, args...)}
}
