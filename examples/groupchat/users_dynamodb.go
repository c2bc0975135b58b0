package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/examples/groupchat/profile"
)

// inDynamoDB is the store and a table of the program's own, which has an item for each name that is in use and one for the count of
// each status.
type inDynamoDB struct {
	*dynamostore.Store
	client *dynamodb.Client
	items  string
}

// withoutStates are the layouts that have no durable states, and so no profiles.
var withoutStates = []string{"akka", "akka0", "esa"}

// openDynamoDB creates the tables that do not exist, then opens the store.
func openDynamoDB(ctx context.Context, u *url.URL) (annals.Store, error) {
	q := u.Query()
	if slices.Contains(withoutStates, q.Get("layout")) {
		return dynamostore.Options{CreateTables: true}.OpenURL(ctx, u)
	}
	table := cmp.Or(q.Get("table"), "annals")
	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{Region: q.Get("region"), Endpoint: q.Get("endpoint")})
	if err != nil {
		return nil, err
	}
	d := &inDynamoDB{client: client, items: table + "-" + profileItems}
	if err := d.createItems(ctx); err != nil {
		return nil, err
	}
	s, err := dynamostore.Options{
		CreateTables: true,
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{
			profile.Behavior.Type: {
				Table:    table + "-" + profileTable,
				Columns:  []string{profile.NameColumn},
				Bind:     profile.Columns,
				OnChange: codec.OnChange(profile.States, d.changeProfile),
			},
		},
		Findable: map[string][]dynamostore.Findable{profile.Behavior.Type: {{Column: profile.NameColumn}}},
	}.OpenURL(ctx, u)
	if err != nil {
		return nil, err
	}
	d.Store = s.(*dynamostore.Store)
	return d, nil
}

const (
	profileItems = "profile_items"
	itemKey      = "what" // "name ann", "count away"
)

func (d *inDynamoDB) createItems(ctx context.Context) error {
	_, err := d.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &d.items,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(itemKey), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(itemKey), AttributeType: types.ScalarAttributeTypeS}},
	})
	if exists := (*types.ResourceInUseException)(nil); err != nil && !errors.As(err, &exists) {
		return err
	}
	return dynamodb.NewTableExistsWaiter(d.client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &d.items}, time.Minute)
}

// changeProfile is the change handler: it adds the changes of names and counts to the transaction. If another user has the name, the
// whole transaction fails.
func (d *inDynamoDB) changeProfile(ctx context.Context, tx *dynamostore.Tx, c codec.Change[profile.Profile]) error {
	var before profile.Profile
	if s, ok, err := tx.Before(ctx); err != nil {
		return err
	} else if ok {
		if before, err = profile.States.Decode(s.Payload); err != nil {
			return err
		}
	}
	now := c.Value // the zero Profile if it was removed
	if now.Name != before.Name {
		if before.Name != "" {
			tx.Add(types.TransactWriteItem{Delete: &types.Delete{TableName: &d.items, Key: item("name " + before.Name)}})
		}
		if now.Name != "" {
			tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &d.items, Item: item("name " + now.Name),
				ConditionExpression: aws.String("attribute_not_exists(" + itemKey + ")")}})
		}
	}
	if now.Status != before.Status {
		d.count(tx, before.Status, "-1")
		d.count(tx, now.Status, "1")
	}
	return nil
}

func (d *inDynamoDB) count(tx *dynamostore.Tx, status profile.Status, n string) {
	if status != "" {
		tx.Add(types.TransactWriteItem{Update: &types.Update{TableName: &d.items, Key: item("count " + string(status)),
			UpdateExpression: aws.String("ADD n :n"), ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: n}}}})
	}
}

func item(what string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{itemKey: &types.AttributeValueMemberS{Value: what}}
}

// counts returns how many profiles have each status: a counter.
func (d *inDynamoDB) counts(ctx context.Context) (map[profile.Status]int, error) {
	counts := map[profile.Status]int{}
	for _, status := range profile.Statuses {
		out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &d.items, Key: item("count " + string(status)), ConsistentRead: aws.Bool(true)})
		if err != nil {
			return nil, err
		}
		counts[status] = 0
		if n, ok := out.Item["n"].(*types.AttributeValueMemberN); ok {
			if counts[status], err = strconv.Atoi(n.Value); err != nil {
				return nil, err
			}
		}
	}
	return counts, nil
}
