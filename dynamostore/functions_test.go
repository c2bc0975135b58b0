package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// openBare opens a store whose layout offers tables alone.
func openBare(t *testing.T, c dynamostore.Client, o dynamostore.Options, tables ...plan.Table) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.Open(t.Context(), c, bare(tables), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put is a function that stores it.
func put(it plan.Item, table, token string) plan.Function {
	return plan.Function{Op: "put", ID: "Thing|1", Writes: true, Run: func(ctx context.Context, _ plan.Contracts, x plan.Executor) error {
		_, err := x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: table, Put: it, Condition: "attribute_not_exists(pid)"}}, Token: token})
		return err
	}}
}

// A local index is created with the table, read strongly consistent and with all attributes, and checked.
func TestLocalIndex(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	table := numbered
	table.Name = "local" + rand.Text()
	index := plan.Index{Name: "by-time", Hash: table.Hash, Range: plan.Key{Name: "at", Number: true}, Local: true}
	for _, keysOnly := range []bool{false, true} {
		table.Name += "x"
		index.KeysOnly = keysOnly
		table.Indexes = []plan.Index{index}
		created := openBare(t, c, dynamostore.Options{CreateTables: true}, table)
		for n := range 3 {
			it := plan.Item{"pid": plan.S("x"), "seq": plan.N(n), "at": plan.N(-n), "data": plan.S(fmt.Sprint(n))}
			if err := created.Execute(ctx, put(it, table.Name, "")); err != nil {
				t.Fatal(err)
			}
		}
		table.Indexes[0].KeysOnly = false // both projections do
		h := &held{Client: c, query: func(_ context.Context, in *dynamodb.QueryInput) {
			if !aws.ToBool(in.ConsistentRead) || in.ProjectionExpression == nil && in.Select != types.SelectAllAttributes {
				t.Errorf("query consistent %v, select %q", aws.ToBool(in.ConsistentRead), in.Select)
			}
		}}
		s := openBare(t, h, dynamostore.Options{}, table)
		for _, fields := range [][]string{nil, {"data"}} {
			got := ""
			err := s.Execute(ctx, plan.Function{Op: "test", Run: func(ctx context.Context, _ plan.Contracts, x plan.Executor) error {
				for it, err := range x.Query(ctx, plan.Query{Table: table.Name, Index: "by-time", Hash: "x", To: plan.N(-1), Fields: fields}) {
					if err != nil {
						return err
					}
					data, _ := plan.Text(it, "data")
					got += data
				}
				return nil
			}})
			// The service reads the attributes that the index lacks from the table; the server of the tests does so only for all attributes.
			if want := map[bool]string{true: "21"}[fields == nil || !keysOnly]; err != nil || got != want {
				t.Errorf("keys only %v, fields %q: items %q, %v", keysOnly, fields, got, err)
			}
		}
	}
	for says, change := range map[string]func(i *plan.Index){
		`local index "other"`:                    func(i *plan.Index) { i.Name = "other" },
		`range key "at (N)", not "when (N)"`:     func(i *plan.Index) { i.Range.Name = "when" },
		`index "by-time" of table`:               func(i *plan.Index) { i.Local = false },
		`local index "by-time" of table "` + "l": func(i *plan.Index) { i.Range.Number = false },
	} {
		other := index
		change(&other)
		table.Indexes = []plan.Index{other}
		if _, err := dynamostore.Open(ctx, c, bare{table}, dynamostore.Options{}); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// A token makes a caller's own repetition recognisable. With another request it is a conflict.
func TestToken(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	table := numbered
	table.Name = "token" + rand.Text()
	s := openBare(t, client(t), dynamostore.Options{CreateTables: true}, table)
	item := func(data string) plan.Item {
		return plan.Item{"pid": plan.S("x"), "seq": plan.N(1), "data": plan.S(data)}
	}
	token := plan.TokenOf(table.Name, "x", "0", "write")
	for range 2 {
		if err := s.Execute(ctx, put(item("a"), table.Name, token)); err != nil {
			t.Error(err)
		}
	}
	for what, f := range map[string]plan.Function{
		"another request":                 put(item("b"), table.Name, token),
		"the same request, another token": put(item("a"), table.Name, plan.TokenOf(table.Name, "x", "0", "other")),
	} {
		if err := s.Execute(ctx, f); !errors.Is(err, annals.ErrConflict) || strings.Contains(err.Error(), "data") {
			t.Errorf("%s: %v, want ErrConflict", what, err)
		}
	}
}

// A function of a layout is a call like those of the contracts.
func TestFunctions(t *testing.T) {
	t.Parallel()
	ctx, seen := t.Context(), &recorder{}
	table := numbered
	table.Name = "functions" + rand.Text()
	s := openBare(t, client(t), dynamostore.Options{CreateTables: true, Observer: seen}, table)
	item := func(n int) plan.Item { return plan.Item{"pid": plan.S("x"), "seq": plan.N(n)} }
	if err := s.Execute(ctx, put(item(1), table.Name, "")); err != nil {
		t.Error(err)
	}
	if r := seen.last(); r.Op != "put" || r.ID != "Thing|1" || r.Requests != 1 || r.WriteUnits != 1 {
		t.Errorf("observed %+v", r)
	}
	var e *annals.Error
	if err := s.Execute(ctx, put(item(1), table.Name, "")); !errors.As(err, &e) || e.Op != "put" || e.ID != "Thing|1" || !errors.Is(err, annals.ErrConflict) {
		t.Errorf("a condition failed: %v", err)
	}
	invalid := put(item(2), table.Name, "")
	invalid.ID = "\xff"
	if err := s.Execute(ctx, invalid); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("an id that is not UTF-8: %v", err)
	}
	rolledBack := errors.New("rolled back")
	for _, fails := range []error{rolledBack, nil} {
		err := s.InTx(ctx, func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
			if err := s.Execute(ctx, put(item(2), table.Name, "")); !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("a write outside of the transaction, with its context: %v", err)
			}
			if err := in.(plan.Runner).Execute(ctx, put(item(2), table.Name, "")); err != nil {
				t.Error(err)
			}
			return fails
		})
		if !errors.Is(err, fails) {
			t.Error(err)
		}
	}
	all := func(s annals.Store) (numbers []int64, failed error) {
		for n, err := range plan.Each(ctx, s, plan.Function{Op: "list"}, func(ctx context.Context, j *bareJournal) iter.Seq2[int64, error] {
			return func(yield func(int64, error) bool) {
				for it, err := range j.x.Query(ctx, plan.Query{Table: table.Name, Hash: "x"}) {
					if n, _ := plan.Number(it, "seq"); !yield(n, err) {
						return
					}
				}
			}
		}) {
			if failed = err; err == nil {
				numbers = append(numbers, n)
				_ = s.Close() // from within the loop: a function that reads does not hold the store
			}
		}
		return numbers, failed
	}
	if numbers, err := all(s); err != nil || fmt.Sprint(numbers) != "[1 2]" {
		t.Errorf("listed %v, %v", numbers, err)
	}
	if numbers, err := all(s); !errors.Is(err, annals.ErrClosed) || len(numbers) > 0 {
		t.Errorf("after Close: listed %v, %v", numbers, err)
	}
	if err := s.Execute(ctx, put(item(3), table.Name, "")); !errors.Is(err, annals.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A global index may have a range key that the layout does not ask for, if every item has it, and more attributes than the keys.
func TestGlobalIndexFits(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	table := numbered
	table.Name = "global" + rand.Text()
	other := plan.Key{Name: "at", Number: true}
	table.Indexes = []plan.Index{
		{Name: "keys", Hash: other, Range: table.Hash, KeysOnly: true},
		{Name: "all", Hash: other, Range: table.Range},
		{Name: "sparse", Hash: table.Hash, Range: other},
	}
	openBare(t, c, dynamostore.Options{CreateTables: true}, table)
	for says, index := range map[string]plan.Index{
		"":                                   {Name: "keys", Hash: other, KeysOnly: true},
		" ":                                  {Name: "all", Hash: other, KeysOnly: true},
		"does not project all attributes":    {Name: "keys", Hash: other},
		`range key "at (N)", not ""`:         {Name: "sparse", Hash: table.Hash},
		`local index "all" of table "global`: {Name: "all", Hash: table.Hash, Range: table.Range, Local: true},
		`range key "seq (N)", not "pid (S)"`: {Name: "all", Hash: other, Range: table.Hash},
		`hash key "at (N)", not "other (S)"`: {Name: "all", Hash: plan.Key{Name: "other"}},
	} {
		table.Indexes = []plan.Index{index}
		_, err := dynamostore.Open(ctx, c, bare{table}, dynamostore.Options{})
		if fits := strings.TrimSpace(says) == ""; fits != (err == nil) || !fits && (!errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%+v: %v, want %q", index, err, says)
		}
	}
}
