package sqlitestore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(tb testing.TB) annals.Store { return open(tb, sqlitestore.Options{}) },
		Reopen: func(tb testing.TB, s annals.Store) annals.Store {
			return openAt(tb, sqlitestore.Path(s.(*sqlitestore.Store)), sqlitestore.Options{})
		},
	})
}
