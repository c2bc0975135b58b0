package dynamostore_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/sharded"
	"github.com/annals-go/annals/storetest"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// own is a table of the user's own, with a hash key only.
type own struct {
	client *dynamodb.Client
	table  string
}

func newOwn(tb testing.TB) own {
	tb.Helper()
	o := own{client(tb), "own" + rand.Text()}
	_, err := o.client.CreateTable(tb.Context(), &dynamodb.CreateTableInput{TableName: &o.table, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("what"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("what"), AttributeType: types.ScalarAttributeTypeS}}})
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// add adds n to a counter.
func (o own) add(counter string, n int) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &o.table, Key: plan.Item{"what": plan.S(counter)}, UpdateExpression: aws.String("ADD n :n"),
		ExpressionAttributeValues: plan.Item{":n": plan.N(n)}}}
}

// present is refused where there is no such item.
func (o own) present(what string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &o.table, Key: plan.Item{"what": plan.S(what)}, ConditionExpression: aws.String("attribute_exists(what)")}}
}

func (o own) item(tb testing.TB, what string) plan.Item {
	tb.Helper()
	out, err := o.client.GetItem(tb.Context(), &dynamodb.GetItemInput{TableName: &o.table, Key: plan.Item{"what": plan.S(what)}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		tb.Fatal(err)
	}
	return out.Item
}

func (o own) count(tb testing.TB, counter string) int {
	tb.Helper()
	n, _ := plan.Number(o.item(tb, counter), "n")
	return int(n)
}

type ownKey struct{}

// stateTypes is the suite's StateTypes for a layout, whose state type has the table that layout names.
func stateTypes(t *testing.T, layout func() (l dynamostore.Layout, table string)) storetest.StateTypes[*dynamostore.Tx] {
	t.Helper()
	counters := newOwn(t)
	var names sync.Map // prefix of a store's counters
	return storetest.StateTypes[*dynamostore.Tx]{
		Open: func(tb testing.TB, st annals.StateType[*dynamostore.Tx]) annals.Store {
			prefix, change := rand.Text(), st.OnChange
			st.OnChange = func(ctx context.Context, tx *dynamostore.Tx, s annals.State) error {
				return change(context.WithValue(ctx, ownKey{}, prefix), tx, s)
			}
			var l dynamostore.Layout
			l, st.Table = layout()
			s, err := dynamostore.Open(tb.Context(), client(tb), l, dynamostore.Options{CreateTables: true,
				StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Thing": st},
				Findable:   map[string][]dynamostore.Findable{"Thing": {{Column: "name"}, {Column: "points", Number: true}}}})
			if err != nil {
				tb.Fatal(err)
			}
			names.Store(s, prefix)
			return s
		},
		Count: func(ctx context.Context, tx *dynamostore.Tx, counter string) error {
			tx.Add(counters.add(ctx.Value(ownKey{}).(string)+counter, 1))
			return nil
		},
		Counted: func(tb testing.TB, s annals.Store, counter string) int {
			prefix, _ := names.Load(s)
			return counters.count(tb, prefix.(string)+counter)
		},
		Refuse: func(_ context.Context, tx *dynamostore.Tx) error {
			tx.Add(counters.present("nothing"))
			return nil
		},
		Short: true,
	}
}

func TestStateTypes(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]func() (dynamostore.Layout, string){
		"commit": func() (dynamostore.Layout, string) { return commit.Layout{Table: "c" + rand.Text()}, "" },
		"commit, own table": func() (dynamostore.Layout, string) {
			return commit.Layout{Table: "c" + rand.Text()}, "own" + rand.Text()
		},
		"sharded": func() (dynamostore.Layout, string) { return shardedStates(sharded.State{Tombstones: true}), "" },
		"sharded, own table": func() (dynamostore.Layout, string) {
			return shardedStates(sharded.State{Tombstones: true}), "own" + rand.Text()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunStateTypes(t, stateTypes(t, layout))
		})
	}
}

// shardedStates is a layout on tables of its own.
func shardedStates(s sharded.State) sharded.Layout {
	prefix := "s" + rand.Text()
	s.Table, s.TagSeparator = prefix+"d", ","
	return sharded.Layout{ShardCount: 1 << 40, Journal: sharded.Journal{Table: prefix + "j"}, Snapshot: sharded.Snapshot{Table: prefix + "s"}, State: s}
}
