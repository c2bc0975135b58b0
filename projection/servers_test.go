package projection_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

func inPostgres(t *testing.T) target {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgres.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgstore.Open(t.Context(), pool, pgstore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := pool.Exec(t.Context(), "CREATE TABLE counts (event TEXT)"); err != nil {
		t.Fatal(err)
	}
	add := func(ctx context.Context, tx pgx.Tx, e envelope) error {
		_, err := tx.Exec(ctx, "INSERT INTO counts VALUES ($1)", key(e))
		return err
	}
	return newTarget(store, add, func(t *testing.T) map[string]int {
		t.Helper()
		rows, err := pool.Query(context.WithoutCancel(t.Context()), "SELECT event FROM counts")
		if err != nil {
			t.Fatal(err)
		}
		events, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, event := range events {
			counts[event]++
		}
		return counts
	})
}

func dynamoClient(t *testing.T) *dynamodb.Client {
	t.Helper()
	client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func openDynamo(t *testing.T, client *dynamodb.Client) *dynamostore.Store {
	t.Helper()
	store, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: "t" + rand.Text(), Index: "slices"}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// counters is a table of the program's own: an item for each counter.
type counters struct {
	client *dynamodb.Client
	table  string
}

func newCounters(t *testing.T, client *dynamodb.Client) counters {
	t.Helper()
	c := counters{client, "own" + rand.Text()}
	if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &c.table, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("what"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("what"), AttributeType: types.ScalarAttributeTypeS}}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c counters) add(name string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &c.table, UpdateExpression: aws.String("ADD n :one"),
		Key:                       map[string]types.AttributeValue{"what": &types.AttributeValueMemberS{Value: name}},
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}}}
}

func (c counters) all(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for pages := dynamodb.NewScanPaginator(c.client, &dynamodb.ScanInput{TableName: &c.table, ConsistentRead: aws.Bool(true)}); pages.HasMorePages(); {
		page, err := pages.NextPage(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			n := 0
			for _, digit := range item["n"].(*types.AttributeValueMemberN).Value {
				n = 10*n + int(digit-'0')
			}
			counts[item["what"].(*types.AttributeValueMemberS).Value] = n
		}
	}
	return counts
}

func inDynamo(t *testing.T) target {
	t.Helper()
	client := dynamoClient(t)
	own := newCounters(t, client)
	add := func(_ context.Context, tx *dynamostore.Tx, e envelope) error {
		tx.Add(own.add(key(e)))
		return nil
	}
	return newTarget(openDynamo(t, client), add, own.all)
}

// onServers runs test with a read model in PostgreSQL and in DynamoDB.
func onServers(t *testing.T, test func(t *testing.T, in target)) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, inPostgres(t)) })
	t.Run("dynamo", func(t *testing.T) { t.Parallel(); test(t, inDynamo(t)) })
}
