package annals_test

import (
	"context"
	"log"
	"os"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// The environment says which store it is.
func ExampleOpeners() {
	ctx := context.Background()
	stores := annals.Openers{"sqlite": sqlitestore.Options{}.OpenURL, "postgres": pgstore.Options{}.OpenURL}
	store, err := stores.Open(ctx, os.Getenv("STORE")) // sqlite:chat.db
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
}
