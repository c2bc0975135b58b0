package esa

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// Attributes of the settings in the tables of Rust5.
const (
	attrStore  = "store_id"
	attrLayout = "layout_version"
)

// configAID is the aggregate id of the settings. No other is without "-".
const configAID = "__config__"

// layoutVersion is the version of the tables that this layout is for.
const layoutVersion = 1

// configuration checks the item __config__ that each of the three tables of Rust5 has. The items say that the tables belong together.
type configuration struct {
	tables []plan.Table
}

// check is plan.Offer.Check. Tables without these items get them, in one transaction, as the library does: two processes that open new tables
// at the same time agree on one store_id.
func (c configuration) check(ctx context.Context, x plan.Executor, _ bool) error {
	for {
		items, err := c.read(ctx, x)
		if err != nil {
			return err
		}
		if items != nil {
			return c.agree(items)
		}
		id := plan.S(annals.NewWriteID().String())
		w := plan.Write{Refused: plan.Expected} // then another process has written them, and they are read again
		for _, g := range c.gets() {
			it := g.Key
			it[attrStore], it[attrLayout] = id, plan.N(layoutVersion)
			w.Ops = append(w.Ops, plan.Create(g.Table, it, attrAID))
		}
		if out, err := x.Write(ctx, w); err != nil || !out.Refused {
			return err
		}
	}
}

func (c configuration) gets() (gets []plan.Get) {
	for _, t := range c.tables {
		key := plan.Item{attrAID: plan.S(configAID)}
		if t.Range.Name != "" {
			key[t.Range.Name] = plan.N(0)
		}
		gets = append(gets, plan.Get{Table: t.Name, Key: key})
	}
	return gets
}

// read returns the three items; nil when there is none. When some are missing they are read again, as of one moment: the first read is not, so
// another process may have written them during the read.
func (c configuration) read(ctx context.Context, x plan.Executor) ([]plan.Item, error) {
	items, err := x.GetMany(ctx, c.gets())
	if n := found(items); err == nil && n > 0 && n < len(items) {
		items, err = x.GetTogether(ctx, c.gets())
	}
	if err != nil || found(items) == 0 {
		return nil, err
	}
	return items, nil
}

// found returns how many of items there are.
func found(items []plan.Item) (n int) {
	for _, it := range items {
		if it != nil {
			n++
		}
	}
	return n
}

// agree returns ErrInvalid when the settings are not those of three tables of this layout that belong together.
func (c configuration) agree(items []plan.Item) error {
	if without := slices.IndexFunc(items, func(it plan.Item) bool { return it == nil }); without >= 0 {
		with := slices.IndexFunc(items, func(it plan.Item) bool { return it != nil })
		return plan.Misfit("the tables do not belong together: %q has the item %q, and %q does not", c.tables[with].Name, configAID, c.tables[without].Name)
	}
	store, _ := plan.Text(items[0], attrStore)
	for i, it := range items {
		id, _ := plan.Text(it, attrStore)
		version, ok := plan.Number(it, attrLayout)
		switch {
		case id == "" || !ok:
			return plan.Misfit("table %q: the item %q has no %s or no %s", c.tables[i].Name, configAID, attrStore, attrLayout)
		case version != layoutVersion:
			return plan.Misfit("table %q: the item %q has %s %d, this layout is %d", c.tables[i].Name, configAID, attrLayout, version, layoutVersion)
		case id != store:
			return plan.Misfit("the tables %q and %q do not belong together: %s is %s and %s", c.tables[0].Name, c.tables[i].Name, attrStore, quote.Text(store), quote.Text(id))
		}
	}
	return nil
}
