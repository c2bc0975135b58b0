package headtable

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Attributes of the settings.
const (
	attrStore   = "store_id"
	attrVersion = "layout_version"
)

// layoutVersion is the version of the tables that this layout is for.
const layoutVersion = 1

// configuration checks the item __config__ that each of the three tables has. The items say that the tables belong together.
type configuration struct {
	tables []string // journal, snapshots, heads
}

// check is plan.Offer.Check. Tables without these items get them, in one transaction, as the library does: two processes that open new tables
// at the same time agree on one store_id.
func (c configuration) check(ctx context.Context, x plan.Executor, _ bool) error {
	keys := []plan.Item{eventKey(configAID, 0), snapshotKey(configAID, currentPlace), headKey(configAID)}
	for {
		gets := make([]plan.Get, len(keys))
		for i, table := range c.tables {
			gets[i] = plan.Get{Table: table, Key: keys[i]}
		}
		items, err := x.GetMany(ctx, gets)
		if err != nil {
			return err
		}
		exist, err := c.agree(items)
		if exist || err != nil {
			return err
		}
		w := plan.Write{Refused: func([]plan.Item, bool) error { return nil }} // then another process has written them, and they are read again
		id := plan.S(annals.NewWriteID().String())
		for i, table := range c.tables {
			it := keys[i]
			it[attrStore], it[attrVersion] = id, plan.N(layoutVersion)
			w.Ops = append(w.Ops, plan.Op{Table: table, Put: it, Condition: absent, Names: aidName})
		}
		if out, err := x.Write(ctx, w); err != nil || !out.Refused {
			return err
		}
		keys = []plan.Item{eventKey(configAID, 0), snapshotKey(configAID, currentPlace), headKey(configAID)}
	}
}

// agree reports whether the settings exist, and returns ErrInvalid when they are not those of three tables of this layout that belong together.
func (c configuration) agree(items []plan.Item) (exist bool, err error) {
	var first string // the table that has the first of the items
	var store string
	missing := ""
	for i, it := range items {
		table := c.tables[i]
		if it == nil {
			missing = table
			continue
		}
		id, _ := plan.Text(it, attrStore)
		version, ok := plan.Number(it, attrVersion)
		switch {
		case id == "" || !ok:
			return false, plan.Misfit("table %q: the item %q has no %s or no %s", table, configAID, attrStore, attrVersion)
		case version != layoutVersion:
			return false, plan.Misfit("table %q: the item %q has %s %d, this layout is %d", table, configAID, attrVersion, version, layoutVersion)
		case first == "":
			first, store = table, id
		case id != store:
			return false, plan.Misfit("the tables %q and %q do not belong together: %s is %s and %s", first, table, attrStore, annals.Quote(store), annals.Quote(id))
		}
	}
	if first != "" && missing != "" {
		return false, plan.Misfit("the tables do not belong together: %q has the item %q, and %q does not", first, configAID, missing)
	}
	return first != "", nil
}
