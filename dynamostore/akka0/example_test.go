package akka0_test

import (
	"context"
	"fmt"
	"log"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka0"
)

// confirmAndDelete has the calls that docs/layouts/akka0.md shows.
func confirmAndDelete(ctx context.Context, store *dynamostore.Store, id annals.PersistenceID) error {
	err := akka0.Confirm(ctx, store, id, map[annals.SeqNr][]string{2: {"mail"}})
	if err != nil {
		return err
	}
	for m, err := range akka0.Messages(ctx, store, id, 1, annals.MaxSeqNr) {
		if err != nil {
			return err
		}
		fmt.Println(m.SeqNr, m.Deleted, m.Confirmations)
	}
	if err = akka0.Delete(ctx, store, id, false, 3, 4); err != nil {
		return err
	}
	lowest, err := akka0.Lowest(ctx, store, id)
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
	store, err := dynamostore.Open(ctx, client, akka0.Layout{Table: "events"}, dynamostore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := confirmAndDelete(ctx, store, "order-7"); err != nil {
		log.Fatal(err)
	}
}
