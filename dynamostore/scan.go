package dynamostore

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Audit is driver.Auditor.
func (v view) Audit(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error) {
	if v.Contracts.Audit == nil {
		return nil, nil
	}
	return v.Contracts.Audit(ctx, id)
}

// remembered is of how many entities a Scan remembers that it has yielded them.
const remembered = 1 << 16

// Scan is ability.Scanner: a scan of the tables, one after the other. The items of an entity can be far apart, so an entity may come again when
// many others were yielded in between.
func (v view) Scan(ctx context.Context, entityType, after string) iter.Seq2[ability.Scanned, error] {
	return func(yield func(ability.Scanned, error) bool) {
		seed, yielded := maphash.MakeSeed(), plan.Recent[uint64, struct{}]{Most: remembered}
		tables := v.s.dataTables()
		first, start, err := placeIn(tables, after)
		if err != nil {
			yield(ability.Scanned{}, err)
			return
		}
		for _, t := range tables[first:] {
			for it, err := range v.s.engine.scanFrom(ctx, t.Name, start) {
				if err != nil {
					yield(ability.Scanned{}, err)
					return
				}
				id, damage := v.s.offer.Row(t.Name, it)
				if entityType != "" && (id == "" || id.Type() != entityType) {
					continue
				}
				step := ability.Scanned{ID: id}
				if id != "" {
					yielded.Change(maphash.String(seed, string(id)), func(none struct{}, known bool) struct{} {
						if known {
							step.ID = ""
						}
						return none
					})
				}
				if damage != nil {
					step.Damage = []*ability.Damage{damage}
				} else if step.ID == "" {
					continue
				}
				step.After = placeOf(t, it)
				if !yield(step, nil) {
					return
				}
			}
			start = nil
		}
	}
}

// placeOf is Scanned.After for an item: its table and its key as JSON.
func placeOf(t plan.Table, it plan.Item) string {
	text, _ := json.Marshal([]string{t.Name, plan.KeyText(it[t.Hash.Name]), plan.KeyText(it[t.Range.Name])}) // cannot fail
	return string(text)
}

// placeIn returns the table and the key that placeOf has written; the first table and no key for "".
func placeIn(tables []plan.Table, after string) (table int, start plan.Item, err error) {
	if after == "" {
		return 0, nil, nil
	}
	var parts []string
	if json.Unmarshal([]byte(after), &parts) == nil && len(parts) == 3 {
		for i, t := range tables {
			if t.Name != parts[0] {
				continue
			}
			start = plan.Item{t.Hash.Name: t.Hash.Value(parts[1])}
			if t.Range.Name != "" {
				start[t.Range.Name] = t.Range.Value(parts[2])
			}
			return i, start, nil
		}
	}
	return 0, nil, &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("no scan of these tables has this place")}
}

// scanFrom yields all items of a table after the one with the key start, eventually consistent and in no order: an item says where to look, at half
// the price.
func (e *engine) scanFrom(ctx context.Context, table string, start plan.Item) iter.Seq2[plan.Item, error] {
	in := &dynamodb.ScanInput{TableName: &table, ReturnConsumedCapacity: e.capacity(), ExclusiveStartKey: start}
	return driver.Pages(ctx, func(ctx context.Context) ([]plan.Item, bool, error) {
		out, err := e.scanPage(ctx, in)
		if err != nil {
			return nil, false, err
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		return out.Items, len(out.LastEvaluatedKey) > 0, nil
	})
}
