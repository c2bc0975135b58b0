package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
)

// Place is a command: place an order. Placed is its event.
type (
	Place  struct{ Item string }
	Placed struct{ Item string }
)

var errPlaced = errors.New("the order was placed before")

// orderBehavior accepts one Place for each order. Its state is what was placed.
var orderBehavior = behavior.EventSourced[Place, Placed, Placed, struct{}]{
	Type: "Order",
	Decide: func(o Placed, c Place) ([]Placed, error) {
		if o.Item != "" {
			return nil, errPlaced
		}
		return []Placed{Placed(c)}, nil
	},
	Evolve: func(_, e Placed) Placed { return e },
}

// place stores the order's event, takes one piece from the stock and adds an item to the outbox: all of it or nothing. Both are items
// of a table of the program's own, with the hash key "what".
func place(ctx context.Context, store *dynamostore.Store, table, id string, c Place) error {
	return store.InTx(ctx, func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		placed, err := orders.Do(ctx, id, c)
		if err != nil {
			return err
		}
		tx.Add(
			types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: what("stock " + c.Item),
				UpdateExpression: aws.String("ADD n :less"), ConditionExpression: aws.String("n > :none"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":less": number(-1), ":none": number(0)}}},
			types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: what(fmt.Sprintf("outbox %s %d %s", id, placed.SeqNr, c.Item))}})
		return nil
	})
}

func number(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}

// An order is placed by a repository on the store that InTx hands over. The program's own items are written by the same transaction.
func ExampleStore_InTx() {
	ctx := context.Background()
	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := dynamostore.Open(ctx, client, commit.Layout{Table: "annals"}, dynamostore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	switch err := place(ctx, store, "shop", "o-1", Place{Item: "pen"}); {
	case err == nil:
		fmt.Println("the event, the stock and the outbox are written")
	case errors.Is(err, errPlaced):
		fmt.Println("rejected, and nothing is written:", err)
	case errors.Is(err, annals.ErrConstraint):
		fmt.Println("sold out, and nothing is written:", err)
	case errors.Is(err, annals.ErrConflict):
		fmt.Println("another process wrote to this order first: place it again")
	case errors.Is(err, annals.ErrUnknown):
		fmt.Println("the answer was lost: place the same order again, errPlaced says that it had been stored")
	default:
		fmt.Println("nothing is written:", err)
	}
}
