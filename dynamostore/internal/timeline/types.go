package timeline

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Types are the entity types in an index. An item of the layout lists them, for queries of all types.
type Types struct {
	Table, Attribute string // where the item is, and its attribute, which is a set of strings
	Always           string // an attribute that the item has from the beginning
	Key              plan.Item
	mu               sync.Mutex
	known            map[string]bool // to be in the item
}

// noType stands for the type of ids without one. No type contains a "|".
const noType = "|"

// maxTypesBytes keeps the item below its limit.
const maxTypesBytes = 300 << 10

// Announce adds a type to the item before anything of that type is written. So a query that does not find the type there began before the
// write.
func (t *Types) Announce(ctx context.Context, x plan.Executor, name string) error {
	known, fits := t.has(name)
	if known {
		return nil
	}
	if !fits {
		return &annals.Error{Kind: annals.ErrTooLarge, Err: errors.New("the settings item holds as many entity types as fit")}
	}
	_, err := x.Write(ctx, plan.Write{Apart: true, Ops: []plan.Op{{Table: t.Table, Key: t.Key, Update: "ADD #types :type",
		Names: map[string]string{"#types": t.Attribute}, Values: plan.Item{":type": &types.AttributeValueMemberSS{Value: []string{cmp.Or(name, noType)}}}}}})
	if err == nil {
		t.add(name)
	}
	return err
}

// has reports whether name is known, and whether it fits into the item.
func (t *Types) has(name string) (known, fits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bytes := len(name)
	if !t.known[name] {
		for known := range t.known {
			bytes += len(known)
		}
	}
	return t.known[name], bytes <= maxTypesBytes
}

func (t *Types) add(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]bool{}
	}
	for _, name := range names {
		t.known[name] = true
	}
}

// Listed reports whether the item lists name. It is read when name is not known.
func (t *Types) Listed(ctx context.Context, x plan.Executor, name string) (bool, error) {
	if known, _ := t.has(name); known {
		return true, nil
	}
	it, _, err := x.Get(ctx, plan.Get{Table: t.Table, Key: t.Key})
	return slices.Contains(t.Learn(it), name), err
}

// Learn records the types in the item and returns them in order.
func (t *Types) Learn(it plan.Item) []string {
	names := map[string]bool{}
	if set, ok := it[t.Attribute].(*types.AttributeValueMemberSS); ok {
		for _, name := range set.Value {
			if name == noType {
				name = ""
			}
			names[name] = true
		}
	}
	all := slices.Sorted(maps.Keys(names))
	t.add(all...)
	return all
}
