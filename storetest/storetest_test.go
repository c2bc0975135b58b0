package storetest_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/storetest"
)

func TestMemstore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{Open: func(testing.TB) annals.Store { return memstore.New() }})
}
