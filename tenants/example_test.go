package tenants_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/tenants"
)

var counter = behavior.EventSourced[int, int, int, int]{
	Type:   "Counter",
	Decide: func(total, add int) ([]int, error) { return []int{add}, nil },
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tenants")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// Each tenant has a file. Its name is hexadecimal, so no two tenants have one file, also where the case of letters in names does not count.
	stores, err := tenants.New(func(ctx context.Context, tenant string) (annals.Store, error) {
		return sqlitestore.Open(ctx, filepath.Join(dir, hex.EncodeToString([]byte(tenant))+".db"), sqlitestore.Options{})
	}, tenants.Options{Max: 100})
	if err != nil {
		fmt.Println(err)
		return
	}

	add := func(tenant string, n int) (total int, err error) {
		err = stores.Use(ctx, tenant, func(ctx context.Context, store annals.Store) error {
			counters, err := aggregate.New(store, counter, aggregate.Options{})
			if err == nil {
				total, err = counters.Ask(ctx, "clicks", n)
			}
			return err
		})
		return total, err
	}
	fmt.Println(add("acme", 2))
	fmt.Println(add("../Acme", 3))
	fmt.Println(add("acme", 5))
	fmt.Println(stores.Close())
	// Output:
	// 2 <nil>
	// 3 <nil>
	// 7 <nil>
	// <nil>
}
