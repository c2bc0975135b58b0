package memstore_test

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/storetest"
)

func TestStateTypes(t *testing.T) {
	t.Parallel()
	storetest.RunStateTypes(t, storetest.StateTypes[memstore.Tx]{
		Short: testing.Short(),
		Open: func(tb testing.TB, t annals.StateType[memstore.Tx]) annals.Store {
			s, err := memstore.Open(memstore.Options{StateTypes: map[string]annals.StateType[memstore.Tx]{"Thing": t}})
			if err != nil {
				tb.Fatal(err)
			}
			return s
		},
		Count: func(_ context.Context, tx memstore.Tx, counter string) error {
			n, _ := tx.Value(counter).(int)
			tx.SetValue(counter, n+1)
			return nil
		},
		Counted: func(_ testing.TB, s annals.Store, counter string) int {
			n, _ := s.(*memstore.Store).Value(counter).(int)
			return n
		},
		Refuse: func(context.Context, memstore.Tx) error { return &annals.Error{Kind: annals.ErrConstraint} },
	})
}
