package dynamostore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// CheckHealth is ability.HealthChecker. The service checks the right to write before it checks the condition.
func (v view) CheckHealth(ctx context.Context) error {
	if len(v.s.offer.Tables) == 0 {
		return nil
	}
	table := v.s.offer.Tables[0]
	if _, _, err := v.x.Get(ctx, plan.Get{Table: table.Name, Key: unusedKey(table)}); err != nil {
		return err
	}
	_, err := plan.Try(ctx, v.x, plan.Op{Table: table.Name, Put: unusedKey(table), Condition: "attribute_exists(#hash) AND attribute_not_exists(#hash)",
		Names: map[string]string{"#hash": table.Hash.Name}})
	if errors.Is(err, errWrites) {
		return nil
	}
	if unknown, ok := errors.AsType[*annals.Error](err); ok && errors.Is(unknown.Kind, annals.ErrUnknown) {
		err = &annals.Error{Kind: annals.ErrUnavailable, Err: unknown.Err} // the write cannot have changed anything
	}
	return err
}

// unusedKey is a key that no item of any layout has.
func unusedKey(t plan.Table) plan.Item {
	key := plan.Item{}
	for _, k := range []plan.Key{t.Hash, t.Range} {
		switch {
		case k.Name == "":
		case k.Number:
			key[k.Name] = plan.N(-2)
		default:
			key[k.Name] = plan.S("annals-health-check")
		}
	}
	return key
}
