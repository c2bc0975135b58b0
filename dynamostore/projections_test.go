package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

func TestProjections(t *testing.T) {
	t.Parallel()
	followtest.Projections(t, func(t *testing.T) followtest.Target[*dynamostore.Tx] {
		client, err := connect(t.Context(), dynamo.Endpoint(t))
		if err != nil {
			t.Fatal(err)
		}
		table := "own" + rand.Text()
		if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("stamp"), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("stamp"), AttributeType: types.ScalarAttributeTypeN}}}); err != nil {
			t.Fatal(err)
		}
		layout := commit.Layout{Table: "c" + rand.Text(), Index: "slices", Lateness: 10 * time.Second}
		open := func() *dynamostore.Store {
			s, err := dynamostore.Open(t.Context(), client, layout, dynamostore.Options{CreateTables: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		s := open()
		number := func(n int64) types.AttributeValue {
			return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
		}
		return followtest.Target[*dynamostore.Tx]{
			Store: s, Beside: open(),
			Add: func(_ context.Context, tx *dynamostore.Tx, e followtest.Entry) error {
				tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: map[string]types.AttributeValue{
					"stamp": number(e.Stamp), "n": number(int64(e.SeqNr)), "id": &types.AttributeValueMemberS{Value: string(e.ID)}}}})
				return nil
			},
			Breaks: map[string]func(ctx context.Context, tx *dynamostore.Tx){
				"a condition that fails": func(_ context.Context, tx *dynamostore.Tx) {
					tx.Add(types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: map[string]types.AttributeValue{"stamp": number(-1)},
						ConditionExpression: aws.String("attribute_exists(stamp)")}})
				},
			},
			Entries: func(ctx context.Context) (all []followtest.Entry, err error) {
				for pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)}); pages.HasMorePages(); {
					page, err := pages.NextPage(ctx)
					if err != nil {
						return nil, err
					}
					for _, item := range page.Items {
						read := func(name string) (n int64) {
							n, err = strconv.ParseInt(item[name].(*types.AttributeValueMemberN).Value, 10, 64)
							if err != nil {
								t.Error(err)
							}
							return n
						}
						all = append(all, followtest.Entry{ID: annals.PersistenceID(item["id"].(*types.AttributeValueMemberS).Value), SeqNr: annals.SeqNr(read("n")), Stamp: read("stamp")})
					}
				}
				return all, nil
			},
			Late: map[string]followtest.Late{
				"a writer whose clock is behind": {Begin: func(context.Context) (followtest.Store, error) {
					return func(ctx context.Context, passed time.Time, cs ...annals.Commit) (err error) {
						writer := open()
						dynamostore.SetBack(writer, time.Since(passed)+time.Second) // a request may take a while
						for _, c := range cs {
							_, failed := writer.Journal().Append(ctx, c)
							err = errors.Join(err, failed)
						}
						return err
					}, nil
				}},
			},
		}
	})
}

// All events change one item, and a transaction writes an item once: each batch is one event.
func TestItemThatEachEventChanges(t *testing.T) {
	t.Parallel()
	own, into, events := newOwn(t), opener(t, commit.Layout{Table: "c" + rand.Text(), Index: "slices"})().(*dynamostore.Store), memstore.New()
	for i := range 10 {
		c := annals.Commit{ID: annals.NewPersistenceID("T", strconv.Itoa(i)), Events: texts(`"a"`, `"b"`, `"c"`)}
		if _, err := events.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	r, err := projection.ExactlyOnce("p", projection.Source[string]{Store: events, Codec: codec.JSON[string]("thing.happened")}, into, func(_ context.Context, tx *dynamostore.Tx, _ projection.Envelope[string]) error {
		tx.Add(own.add("all", 1))
		return nil
	}, projection.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := own.count(t, "all"); n != 30 {
		t.Errorf("30 events were counted %d times", n)
	}
}
