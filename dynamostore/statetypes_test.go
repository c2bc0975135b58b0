package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
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

// present is a condition that fails when there is no such item.
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

// stateTypes is the suite's StateTypes for a layout. The state type has the table that layout returns.
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
		"j5ik2o": func() (dynamostore.Layout, string) { return j5ik2oStates(j5ik2o.State{Tombstones: true}), "" },
		"j5ik2o, own table": func() (dynamostore.Layout, string) {
			return j5ik2oStates(j5ik2o.State{Tombstones: true}), "own" + rand.Text()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunStateTypes(t, stateTypes(t, layout))
		})
	}
	t.Run("j5ik2o, without deletes", func(t *testing.T) {
		t.Parallel()
		storetest.RunStateTypes(t, stateTypes(t, func() (dynamostore.Layout, string) { return j5ik2oStates(j5ik2o.State{NoSortKey: true}), "" }))
	})
}

// j5ik2oStates is a layout on tables of its own.
func j5ik2oStates(s j5ik2o.State) j5ik2o.Layout {
	prefix := "s" + rand.Text()
	s.Table, s.TagSeparator = prefix+"d", ","
	return j5ik2o.Layout{ShardCount: 1 << 40, Journal: j5ik2o.Journal{Table: prefix + "j"}, Snapshot: j5ik2o.Snapshot{Table: prefix + "s"}, State: s}
}

// posts is the state type of states with a findable title, in a table of their own.
func posts(table string) dynamostore.Options {
	return dynamostore.Options{CreateTables: true,
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Post": {Table: table, Columns: []string{"title", "size", "raw", "open"}, Bind: bindPost}},
		Findable:   map[string][]dynamostore.Findable{"Post": {{Column: "title"}, {Column: "size", Number: true}}}}
}

func bindPost(s annals.State) (annals.Columns, error) {
	return annals.Columns{"title": string(s.Data), "size": float64(len(s.Data)), "raw": s.Data, "open": true}, nil
}

func putText(t testing.TB, s annals.Store, id annals.PersistenceID, after annals.SeqNr, data string) error {
	t.Helper()
	_, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, After: after, Payload: text(data).Payload})
	return err
}

func found(t testing.TB, s *dynamostore.Store, column string, value any) (ids []annals.PersistenceID, err error) {
	t.Helper()
	for st, e := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "Post", column, value) {
		if err = e; err == nil {
			ids = append(ids, st.ID)
		}
	}
	return ids, err
}

func TestOpenChecksStateTypes(t *testing.T) {
	t.Parallel()
	bind := func(annals.State) (annals.Columns, error) { return nil, nil }
	table, columns := "t"+rand.Text(), []string{"title"}
	plain, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = plain.Close()
	o := newOwn(t)
	for says, c := range map[string]struct {
		layout   dynamostore.Layout
		name     string
		st       annals.StateType[*dynamostore.Tx]
		findable []dynamostore.Findable
	}{
		`table "nowhere" does not exist`:             {name: "T", st: annals.StateType[*dynamostore.Tx]{Table: "nowhere"}},
		`has the hash key "what (S)", not "pid (S)"`: {name: "T", st: annals.StateType[*dynamostore.Tx]{Table: o.table}},
		`column "rev" is the store's own`:            {name: "T", st: annals.StateType[*dynamostore.Tx]{Columns: []string{"rev"}, Bind: bind}},
		`column "title" is named twice`:              {name: "T", st: annals.StateType[*dynamostore.Tx]{Columns: []string{"title", "title"}, Bind: bind}},
		`Columns and Bind go together`:               {name: "T", st: annals.StateType[*dynamostore.Tx]{Columns: columns}},
		`Columns does not name it`:                   {name: "T", findable: []dynamostore.Findable{{Column: "title"}}},
		`no index with the hash key "title"`:         {name: "T", st: annals.StateType[*dynamostore.Tx]{Columns: columns, Bind: bind}, findable: []dynamostore.Findable{{Column: "title"}}},
		`a type has no |`:                            {name: "T|x"},
		`the layout keeps no states`:                 {layout: j5ik2o.Layout{State: j5ik2o.State{Off: true}}, name: "T"},
		`the table "Journal" has another use`:        {layout: j5ik2o.Layout{}, name: "T", st: annals.StateType[*dynamostore.Tx]{Table: "Journal"}},
		`column "persistence-id" is the store's own`: {layout: j5ik2o.Layout{}, name: "T", st: annals.StateType[*dynamostore.Tx]{Columns: []string{"persistence-id"}, Bind: bind}},
	} {
		if c.layout == nil {
			c.layout = commit.Layout{Table: table}
		}
		_, err := dynamostore.Open(t.Context(), client(t), c.layout, dynamostore.Options{
			StateTypes: map[string]annals.StateType[*dynamostore.Tx]{c.name: c.st}, Findable: map[string][]dynamostore.Findable{c.name: c.findable}})
		if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	_, err = dynamostore.Open(t.Context(), client(t), commit.Layout{Table: table}, dynamostore.Options{Findable: map[string][]dynamostore.Findable{"T": nil}})
	if !errors.Is(err, annals.ErrInvalid) {
		t.Error(err)
	}
}

// The table of an entity type has its own settings and is checked like the main table.
func TestOwnTable(t *testing.T) {
	t.Parallel()
	c, main, table := client(t), "t"+rand.Text(), "own"+rand.Text()
	s, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: main}, posts(table))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := putText(t, s, "Post|1", 0, "hello"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{main: 1, table: 2} { // with the settings
		out, err := c.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name})
		if err != nil || len(out.Items) != want {
			t.Errorf("%d items in %s, %v, want %d", len(out.Items), name, err, want)
		}
	}
	out, err := c.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil || len(out.Table.GlobalSecondaryIndexes) != 2 || out.Table.GlobalSecondaryIndexes[0].Projection.ProjectionType != types.ProjectionTypeKeysOnly {
		t.Error(out, err)
	}
	// A type that the index does not have.
	o := posts(table)
	o.Findable["Post"] = []dynamostore.Findable{{Column: "size"}}
	if _, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: main}, o); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "of type N, not S") {
		t.Error(err)
	}
	settings := plan.Item{"pid": plan.S("annals"), "seq": plan.N(-1), "layout": plan.S("commit"), "v": plan.N(2)}
	if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: settings}); err != nil {
		t.Fatal(err)
	}
	if _, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: main}, posts(table)); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), table) {
		t.Error(err)
	}
}

// An existing index with any name, and with a range key that all states have, is used without being declared. A column without an index is
// ErrUnsupported, and no search scans the table.
func TestFindStates(t *testing.T) {
	t.Parallel()
	c, p := clientBehindProxy(t)
	table := "own" + rand.Text()
	define := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	key := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: kind}
	}
	_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{key("pid", types.KeyTypeHash), key("seq", types.KeyTypeRange)},
		AttributeDefinitions: []types.AttributeDefinition{define("pid", types.ScalarAttributeTypeS), define("seq", types.ScalarAttributeTypeN),
			define("title", types.ScalarAttributeTypeS), define("size", types.ScalarAttributeTypeN), define("raw", types.ScalarAttributeTypeB)},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String("mine"), KeySchema: []types.KeySchemaElement{key("title", types.KeyTypeHash), key("pid", types.KeyTypeRange)},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}},
			{IndexName: aws.String("some"), KeySchema: []types.KeySchemaElement{key("size", types.KeyTypeHash), key("title", types.KeyTypeRange)},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}}, // not all states have a title
			{IndexName: aws.String("bytes"), KeySchema: []types.KeySchemaElement{key("raw", types.KeyTypeHash)},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	o := posts(table)
	o.Findable = nil
	s, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: "t" + rand.Text()}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := putText(t, s, "Post|1", 0, "hello"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		column string
		value  any
		want   int
		kind   error
	}{
		{"title", "hello", 1, nil}, {"title", "none", 0, nil},
		{"size", 5.0, 0, annals.ErrUnsupported}, {"open", true, 0, annals.ErrUnsupported}, {"raw", []byte("hello"), 0, annals.ErrUnsupported}, {"title", nil, 0, annals.ErrUnsupported},
		{"title", int64(5), 0, annals.ErrInvalid}, {"title", "", 0, annals.ErrInvalid}, {"title", strings.Repeat("x", 2049), 0, annals.ErrInvalid}, {"other", "x", 0, annals.ErrInvalid},
	} {
		ids, err := found(t, s, c.column, c.value)
		if len(ids) != c.want || !errors.Is(err, c.kind) {
			t.Errorf("%s = %v: %v, %v, want %d, %v", c.column, c.value, ids, err, c.want, c.kind)
		}
	}
	// A value that an index cannot have is refused before it is sent.
	before := p.Counts()
	for what, data := range map[string]string{"empty": "", "large": strings.Repeat("x", 2049)} {
		if err := putText(t, s, "Post|2", 0, data); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if counts := p.Counts(); counts["UpdateItem"] != before["UpdateItem"] || counts["TransactWriteItems"] != before["TransactWriteItems"] || counts["Scan"] > 2 {
		t.Errorf("requests %v, before %v", counts, before)
	}
}

// The items of an index can be older than the states. The states count.
func TestFindStatesOfAnOlderIndex(t *testing.T) {
	t.Parallel()
	c, p := clientBehindProxy(t)
	s, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: "t" + rand.Text()}, posts(""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for i := range 3 {
		if err := putText(t, s, annals.NewPersistenceID("Post", fmt.Sprint(i)), 0, "same"); err != nil {
			t.Fatal(err)
		}
	}
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		if !r.Indexed() {
			return dynamo.Fault{}
		}
		return dynamo.Fault{After: func() { // between index and states
			p.SetRule(nil)
			if err := putText(t, s, "Post|0", 1, "other"); err != nil {
				t.Error(err)
			}
			if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Post|1", After: 1}); err != nil {
				t.Error(err)
			}
		}}
	})
	if ids, err := found(t, s, "title", "same"); err != nil || len(ids) != 1 || ids[0] != "Post|2" {
		t.Error(ids, err)
	}
	if ids, err := found(t, s, "size", 5.0); err != nil || len(ids) != 1 { // 5 and not 5.0 is what the service stores
		t.Error(ids, err)
	}
	_ = s.Close()
	if _, err := found(t, s, "title", "same"); !errors.Is(err, annals.ErrClosed) {
		t.Error(err)
	}
}

// A number that DynamoDB cannot store is refused.
func TestNumbersOfColumns(t *testing.T) {
	t.Parallel()
	value := 0.0
	o := posts("")
	post := o.StateTypes["Post"]
	post.Bind = func(annals.State) (annals.Columns, error) { return annals.Columns{"size": value}, nil }
	o.StateTypes["Post"] = post
	s := openCommit(t, client(t), o)
	after := annals.SeqNr(0)
	for _, good := range []float64{0, -0.5, 1e-130, 9.99e125, 1.0 / 3, -1e30} {
		value = good
		if err := putText(t, s, "Post|1", after, "x"); err != nil {
			t.Errorf("%v: %v", value, err)
			continue
		}
		after++
		if ids, err := found(t, s, "size", good); err != nil || len(ids) != 1 {
			t.Errorf("%v: found %v, %v", value, ids, err)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e126, 1e-131} {
		value = bad
		if err := putText(t, s, "Post|1", after, "x"); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%v: %v", value, err)
		}
	}
}
