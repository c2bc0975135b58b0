package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
)

// outboxOf is the name of the table of the outbox, and a client for it.
func outboxOf(ctx context.Context, u *url.URL) (*string, *dynamodb.Client, error) {
	q := u.Query()
	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{Region: q.Get("region"), Endpoint: q.Get("endpoint")})
	return aws.String(cmp.Or(q.Get("table"), "annals") + "-outbox"), client, err
}

// migrateDynamoDB creates the table of the store and that of the outbox.
func migrateDynamoDB(ctx context.Context, u *url.URL) error {
	s, err := dynamostore.Options{CreateTables: true}.OpenURL(ctx, u)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	table, client, err := outboxOf(ctx, u)
	if err != nil {
		return err
	}
	_, err = client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   table,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("order_id"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("seq_nr"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("order_id"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("seq_nr"), AttributeType: types.ScalarAttributeTypeN},
		},
	})
	if exists := (*types.ResourceInUseException)(nil); err != nil && !errors.As(err, &exists) {
		return err
	}
	return dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: table}, time.Minute)
}

func openDynamoDB(ctx context.Context, u *url.URL, o annals.Observer) (*backend, error) {
	table, client, err := outboxOf(ctx, u)
	if err != nil {
		return nil, err
	}
	opened, err := dynamostore.Options{Observer: o}.OpenURL(ctx, u)
	if err != nil {
		return nil, err
	}
	s := opened.(*dynamostore.Store)
	return &backend{
		store: s,
		inTx: func(ctx context.Context, fn func(context.Context, annals.Store, func(message) error) error) error {
			return s.InTx(ctx, func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
				return fn(ctx, in, func(m message) error {
					tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: table, Item: map[string]types.AttributeValue{
						"order_id": &types.AttributeValueMemberS{Value: m.Order},
						"seq_nr":   &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(m.SeqNr), 10)},
						"text":     &types.AttributeValueMemberS{Value: m.Text},
					}}})
					return nil
				})
			})
		},
		outbox: func(ctx context.Context) (all []message, err error) {
			pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: table, ConsistentRead: aws.Bool(true)})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return nil, err
				}
				for _, item := range page.Items {
					m, err := messageOf(item)
					if err != nil {
						return nil, err
					}
					all = append(all, m)
				}
			}
			return all, nil
		},
	}, nil
}

func messageOf(item map[string]types.AttributeValue) (m message, err error) {
	order, _ := item["order_id"].(*types.AttributeValueMemberS)
	text, _ := item["text"].(*types.AttributeValueMemberS)
	number, _ := item["seq_nr"].(*types.AttributeValueMemberN)
	if order == nil || text == nil || number == nil {
		return m, errors.New("an item of the outbox cannot be read")
	}
	n, err := strconv.ParseInt(number.Value, 10, 64)
	return message{order.Value, annals.SeqNr(n), text.Value}, err
}
