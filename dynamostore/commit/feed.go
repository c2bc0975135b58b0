package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The index has the commits of each entity type in 16 partitions and its states in 16 others, in the order of time. A partition is for 64
// slices. So followers that divide the slices into 2, 4, 8 or 16 equal ranges do not share partitions.
const (
	groups      = 16
	groupSlices = annals.SliceCount / groups
)

func group(id annals.PersistenceID) int { return id.Slice() / groupSlices }

// commitFeed and stateFeed return the hash key of a partition of the index. They are unambiguous, whatever the name of the type ends with.
func commitFeed(entityType string, group int) string {
	return fmt.Sprintf("%s#%02d", entityType, group)
}

func stateFeed(entityType string, group int) string { return commitFeed(entityType, group) + " state" }

// entityTypes are the types that the settings item is known to have. A query for all types reads them from there.
type entityTypes struct {
	table string // the table with the settings item
	mu    sync.Mutex
	known map[string]bool
}

// noType stands for the type of ids without one. No type contains a "|".
const noType = "|"

// maxTypesBytes keeps the settings item below its limit.
const maxTypesBytes = 300 << 10

// announce adds the type of id to the settings before anything of that type is written. So a query that does not find the type there began
// before the write.
func (t *table) announce(ctx context.Context, id annals.PersistenceID) error {
	name := id.Type()
	if t.index == "" {
		return nil
	}
	known, fits := t.types.has(name)
	if known {
		return nil
	}
	if !fits {
		return &annals.Error{Kind: annals.ErrTooLarge, Err: errors.New("the settings item holds as many entity types as fit")}
	}
	_, err := t.x.Write(ctx, plan.Write{Apart: true, Ops: []plan.Op{{Table: t.types.table, Key: settingsKey(), Update: "ADD #types :type",
		Names: map[string]string{"#types": attrTypes}, Values: plan.Item{":type": &types.AttributeValueMemberSS{Value: []string{cmp.Or(name, noType)}}}}}})
	if err == nil {
		t.types.add(name)
	}
	return err
}

// has reports whether name is known, and whether it fits into the settings item.
func (e *entityTypes) has(name string) (known, fits bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := len(name)
	if !e.known[name] {
		for known := range e.known {
			bytes += len(known)
		}
	}
	return e.known[name], bytes <= maxTypesBytes
}

func (e *entityTypes) add(names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil {
		e.known = map[string]bool{}
	}
	for _, name := range names {
		e.known[name] = true
	}
}

// learn records the types in the settings and returns them in order.
func (e *entityTypes) learn(settings plan.Item) []string {
	names := map[string]bool{}
	if set, ok := settings[attrTypes].(*types.AttributeValueMemberSS); ok {
		for _, name := range set.Value {
			if name == noType {
				name = ""
			}
			names[name] = true
		}
	}
	all := slices.Sorted(maps.Keys(names))
	e.add(all...)
	return all
}
