package commit

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/timeline"
	"github.com/annals-go/annals/internal/valid"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// fillers is how many items are put into an index at a time, of the 100 that are read together.
const fillers = 34

// fillIndex puts the items of a table that was created without an index into the index. From the first step on the table can only be
// opened with that index, and until the last step only with FillIndex.
func (t *table) fillIndex(ctx context.Context) error {
	if err := t.settle(ctx, plan.Op{Update: "SET #v = :v, #index = :index, #filling = :true", Condition: "attribute_not_exists(#index) OR #index = :index AND #filling = :true",
		Names:  map[string]string{"#v": attrFormat, "#index": attrIndex, "#filling": attrFilling},
		Values: plan.Item{":v": plan.N(formatSpread), ":index": plan.S(t.index), ":true": plan.Bool(true)}}); err != nil {
		return err
	}
	all := t.x.ScanAll(ctx, t.name, []string{attrID, attrSeq, attrFeed, attrCount, attrRevision}, plan.Part{})
	if err := plan.Batches(all, func(items []plan.Item) error { return t.fillItems(ctx, items) }); err != nil {
		return err
	}
	return t.settle(ctx, plan.Op{Update: "SET #index = :index REMOVE #filling", Condition: "#index = :index",
		Names: map[string]string{"#index": attrIndex, "#filling": attrFilling}, Values: plan.Item{":index": plan.S(t.index)}})
}

// settle changes the settings, on condition of the index that they name.
func (t *table) settle(ctx context.Context, op plan.Op) error {
	op.Table, op.Key = t.name, settingsKey()
	_, err := t.x.Write(ctx, plan.Write{Ops: []plan.Op{op},
		Refused: func(old []plan.Item, _ bool) error {
			if index, _ := plan.Text(old[0], attrIndex); index == t.index {
				return nil // another process has filled the index; this late request must not mark it as unfilled
			}
			return plan.Misfit("table %q has another index", t.name)
		}})
	return err
}

func (t *table) fillItems(ctx context.Context, items []plan.Item) error {
	for chunk := range slices.Chunk(items, fillers) {
		var wg sync.WaitGroup
		errs := make([]error, len(chunk))
		for i, it := range chunk {
			wg.Go(func() { errs[i] = t.fillItem(ctx, it) })
		}
		wg.Wait()
		if err := cmp.Or(errs...); err != nil {
			return err
		}
	}
	return nil
}

// fillItem puts an item into the index if it is a commit, a tombstone or a state.
func (t *table) fillItem(ctx context.Context, it plan.Item) error {
	id, err := idOf(it)
	if err != nil {
		return err
	}
	var feed types.AttributeValue
	switch {
	case it[attrFeed] != nil:
		return nil
	case it[attrCount] != nil:
		feed = plan.S(timeline.EventsKey(id))
	case it[attrRevision] != nil && !strings.Contains(string(id), "\x00"): // the progress of a projection has a revision, too
		feed = plan.S(timeline.StateKey(id))
	default:
		return nil
	}
	if err := valid.ID("open", id, annals.Limits{MaxIDBytes: timeline.MaxIDBytes}); err != nil {
		return err
	}
	if err := t.announce(ctx, id); err != nil {
		return err
	}
	_, err = plan.Try(ctx, t.x, plan.Op{Table: t.name, Key: plan.Item{attrID: it[attrID], attrSeq: it[attrSeq]}, Update: "SET #feed = :feed",
		Condition: "attribute_exists(#pid)", // or it was forgotten meanwhile
		Names:     map[string]string{"#feed": attrFeed, "#pid": attrID}, Values: plan.Item{":feed": feed}})
	return err
}
