package hashkey_test

import (
	"context"
	"fmt"
	"log"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/hashkey"
)

// confirmAndDelete has the calls that docs/layouts/hashkey.md shows.
func confirmAndDelete(ctx context.Context, store *dynamostore.Store, id annals.PersistenceID) error {
	err := hashkey.Confirm(ctx, store, id, hashkey.Confirmation{SeqNr: 2, Channel: "mail"})
	if err != nil {
		return err
	}
	for m, err := range hashkey.Messages(ctx, store, id, 1, annals.MaxSeqNr) {
		if err != nil {
			return err
		}
		fmt.Println(m.SeqNr, m.Deleted, m.Confirmations)
	}
	if err = hashkey.Delete(ctx, store, id, false, 3, 4); err != nil {
		return err
	}
	lowest, err := hashkey.Lowest(ctx, store, id)
	fmt.Println(lowest)
	return err
}

// A delivery to the channel "mail" is confirmed, and two events are marked as deleted.
func Example() {
	ctx := context.Background()
	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := dynamostore.Open(ctx, client, hashkey.Layout{Table: "events"}, dynamostore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := confirmAndDelete(ctx, store, "order-7"); err != nil {
		log.Fatal(err)
	}
}
