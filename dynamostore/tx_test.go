package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// counter is an item of the caller's own. It is in the store's table for simplicity.
func counter(table string) plan.Item {
	return plan.Item{"pid": plan.S("counter"), "seq": plan.N(-7)}
}

func increment(table string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: counter(table), UpdateExpression: aws.String("ADD hits :one"),
		ExpressionAttributeValues: plan.Item{":one": plan.N(1)}}}
}

func TestStateColumnsAndHandlers(t *testing.T) {
	t.Parallel()
	ctx, c, table := t.Context(), client(t), "t"+rand.Text()
	at := time.Date(2026, 7, 28, 12, 0, 0, 5000, time.UTC)
	refuse := errors.New("the handler says no")
	posts := annals.StateType[*dynamostore.Tx]{
		Columns: []string{"title", "hits-seen", "at-time", "gone-soon"},
		Bind: func(s annals.State) (annals.Columns, error) {
			columns := annals.Columns{"title": string(s.Data), "hits-seen": int64(s.Revision), "at-time": at, "gone-soon": true}
			if s.Revision == 2 {
				columns = annals.Columns{"gone-soon": nil}
			}
			return columns, nil
		},
		OnChange: func(_ context.Context, tx *dynamostore.Tx, s annals.State) error {
			if string(s.Data) == "refused" {
				return refuse
			}
			tx.Add(increment(table))
			return nil
		},
	}
	s, err := dynamostore.Open(ctx, c, commit.Layout{Table: table}, dynamostore.Options{CreateTables: true,
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Post": posts}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	id := annals.NewPersistenceID("Post", "1")
	row := func() plan.Item {
		out, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: plan.Item{"pid": plan.S(string(id)), "seq": plan.N(0)}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Item
	}
	hits := func() int64 {
		out, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: counter(table)})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := plan.Number(out.Item, "hits")
		return n
	}
	first := annals.StateWrite{ID: id, Payload: text("one").Payload, WriteID: annals.NewWriteID()}
	for range 2 { // the second is the first, come again
		if _, err := s.States().Put(ctx, first); err != nil {
			t.Fatal(err)
		}
	}
	if title, _ := plan.Text(row(), "title"); title != "one" || hits() != 1 {
		t.Error(row(), hits())
	}
	if at, _ := plan.Text(row(), "at-time"); at != "2026-07-28T12:00:00.000005Z" || !plan.Flag(row(), "gone-soon") {
		t.Error(row())
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: 1, Payload: text("two").Payload}); err != nil {
		t.Fatal(err)
	}
	if title, _ := plan.Text(row(), "title"); title != "one" || row()["gone-soon"] != nil || hits() != 2 {
		t.Error(row(), hits())
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: 2, Payload: text("refused").Payload}); !errors.Is(err, refuse) {
		t.Error(err)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: 1, Payload: text("late").Payload}); !errors.Is(err, annals.ErrConflict) || hits() != 2 {
		t.Error(err, hits())
	}
	if _, err := s.States().Delete(ctx, annals.StateWrite{ID: id, After: 2}); err != nil {
		t.Fatal(err)
	}
	if row()["title"] != nil || row()["hits-seen"] != nil || hits() != 3 {
		t.Error(row(), hits())
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	ctx, c, table := t.Context(), client(t), "t"+rand.Text()
	s, err := dynamostore.Open(ctx, c, commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	a, b := annals.NewPersistenceID("Thing", "a"), annals.NewPersistenceID("Thing", "b")
	w := annals.NewWriteID()
	both := func(own types.TransactWriteItem) error {
		return s.InTx(ctx, func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
			tx.Add(own)
			if _, err := in.Journal().Append(ctx, annals.Commit{ID: a, Events: texts("a"), WriteID: w}); err != nil {
				return err
			}
			_, err := in.States().Put(ctx, annals.StateWrite{ID: b, Payload: text("b").Payload, WriteID: w})
			return err
		})
	}
	key := counter(table)
	impossible := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: key, ConditionExpression: aws.String("attribute_exists(pid)")}}
	if err := both(impossible); !errors.Is(err, annals.ErrConstraint) {
		t.Error(err)
	}
	if got := replay(ctx, t, s, a, 1, annals.MaxSeqNr); got != nil {
		t.Error(got)
	}
	if err := both(increment(table)); err != nil {
		t.Fatal(err)
	}
	if err := both(increment(table)); err != nil { // sent again with the same WriteIDs: it has landed
		t.Fatal(err)
	}
	out, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key})
	if n, _ := plan.Number(out.Item, "hits"); err != nil || n != 1 {
		t.Errorf("%d hits, %v", n, err)
	}
	// One of two writes was stored before. The other must not be considered stored.
	err = s.InTx(ctx, func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
		if _, err := in.Journal().Append(ctx, annals.Commit{ID: a, Events: texts("a"), WriteID: w}); err != nil {
			return err
		}
		_, err := in.Journal().Append(ctx, annals.Commit{ID: "Thing|c", Events: texts("c")})
		return err
	})
	if !errors.Is(err, annals.ErrConflict) {
		t.Error(err)
	}
}

// Items of a handler that the service would refuse are refused, and nothing is written.
func TestItemsOfHandlers(t *testing.T) {
	t.Parallel()
	o, table := newOwn(t), "t"+rand.Text()
	var add []types.TransactWriteItem
	s, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: table}, dynamostore.Options{CreateTables: true,
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Post": {OnChange: func(_ context.Context, tx *dynamostore.Tx, _ annals.State) error {
			tx.Add(add...)
			return nil
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	put := func(size int) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: &o.table, Item: plan.Item{"what": plan.S(rand.Text()), "data": plan.B(make([]byte, size))}}}
	}
	elsewhere := own{o.client, "nowhere" + rand.Text()}
	for what, c := range map[string]struct {
		add  []types.TransactWriteItem
		kind error
	}{
		"a large item":               {[]types.TransactWriteItem{put(plan.MaxItemBytes)}, annals.ErrTooLarge},
		"large items together":       {slices.Repeat([]types.TransactWriteItem{put(plan.MaxItemBytes - 100)}, 11), annals.ErrTooLarge},
		"many items":                 {slices.Repeat([]types.TransactWriteItem{o.add("n", 1)}, 100), annals.ErrTooLarge},
		"an item twice":              {[]types.TransactWriteItem{o.add("n", 1), o.add("n", 1)}, annals.ErrInvalid},
		"the state itself":           {[]types.TransactWriteItem{{Delete: &types.Delete{TableName: &table, Key: plan.Item{"pid": plan.S("Post|1"), "seq": plan.N(0)}}}}, annals.ErrInvalid},
		"an expression that is none": {[]types.TransactWriteItem{{Update: &types.Update{TableName: &o.table, Key: plan.Item{"what": plan.S("n")}, UpdateExpression: aws.String("more")}}}, annals.ErrInvalid},
		"a table that is not there":  {[]types.TransactWriteItem{elsewhere.add("n", 1)}, annals.ErrInvalid},
	} {
		add = c.add
		if err := putText(t, s, "Post|1", 0, "x"); !errors.Is(err, c.kind) || errors.Is(err, annals.ErrUnknown) {
			t.Errorf("%s: %v, want %v", what, err, c.kind)
		}
	}
	if st, ok, err := s.States().Get(t.Context(), "Post|1"); ok || err != nil || st.Revision != 0 || o.count(t, "n") != 0 {
		t.Error(st, ok, err)
	}
}
