package dynamostore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// CheckHealth is annals.HealthChecker. It reads an item that never exists and tries to write it on a condition that never holds: two
// requests to the layout's first table, one read unit and one write unit. The service checks the right to write before the condition.
func (s *Store) CheckHealth(ctx context.Context) error {
	return s.view().call(ctx, annals.Call{Op: "check health"}, false, func(ctx context.Context) error {
		table := s.offer.Tables[0]
		if _, _, err := s.engine.Get(ctx, plan.Get{Table: table.Name, Key: unusedKey(table)}); err != nil {
			return err
		}
		_, err := s.engine.Write(ctx, plan.Write{
			Ops: []plan.Op{{Table: table.Name, Put: unusedKey(table), Condition: "attribute_exists(#hash) AND attribute_not_exists(#hash)",
				Names: map[string]string{"#hash": table.Hash.Name}}},
			Refused: func([]plan.Item, bool) error { return nil },
		})
		if unknown := (*annals.Error)(nil); errors.As(err, &unknown) && errors.Is(unknown.Kind, annals.ErrUnknown) {
			err = &annals.Error{Kind: annals.ErrUnavailable, Err: unknown.Err} // this write cannot have changed anything
		}
		return err
	})
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
