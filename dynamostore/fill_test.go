package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableWithIndex makes a table as it is when the index was added after its creation.
func tableWithIndex(t *testing.T, c *dynamodb.Client) string {
	t.Helper()
	name := "f" + rand.Text()
	keys := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, KeySchema: keys("pid", "seq"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("slices"), KeySchema: keys("feed", "at"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}}}}
	for name, kind := range map[string]types.ScalarAttributeType{"pid": "S", "seq": "N", "feed": "S", "at": "N"} {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: kind})
	}
	if _, err := c.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return name
}

// An index that is added later is filled with all stored items. After an interruption the next Open continues, and meanwhile a store without
// FillIndex cannot open the table.
func TestFillIndex(t *testing.T) {
	t.Parallel()
	ctx, direct := t.Context(), client(t)
	table, own := tableWithIndex(t, direct), tableWithIndex(t, direct)
	o := dynamostore.Options{StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Own": {Table: own}}}
	before, err := dynamostore.Open(ctx, direct, commit.Layout{Table: table}, o)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []annals.Offset
	var ids []annals.PersistenceID
	for i := range 60 {
		id := annals.NewPersistenceID([]string{"Thing", "Other"}[i%2], string(rune('A'+i)))
		ids = append(ids, id)
		fill(ctx, t, before, id, 3, 3, 10)
		fill(ctx, t, before, id, 1, 1, 10)
		if i%10 == 0 {
			must(before.Journal().DeleteTo(ctx, id, 1+annals.SeqNr(i%3)*2))
		}
		for e, err := range before.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			must(err)
			want = append(want, e.Offset())
		}
	}
	slices.SortFunc(want, annals.Offset.Compare)
	large := make([]byte, 500<<10)
	_, _ = rand.Read(large)
	must(before.Snapshots().Save(ctx, annals.Snapshot{ID: ids[0], SeqNr: 4, Payload: annals.Payload{SerializerID: 4, Data: large}}))
	must(before.Offsets().Save(ctx, annals.Progress{Projection: "list", Offsets: want[:3]}))
	for _, id := range []annals.PersistenceID{ids[0], "State|1", "Own|1", "none"} {
		_, err := before.States().Put(ctx, annals.StateWrite{ID: id, Payload: text("state").Payload})
		must(err)
	}
	_, err = before.States().Delete(ctx, annals.StateWrite{ID: "State|1", After: 1})
	must(err)

	refused := func(l commit.Layout, says string) {
		t.Helper()
		if _, err := dynamostore.Open(ctx, direct, l, o); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	refused(commit.Layout{Table: table, FillIndex: true}, "FillIndex has no Index")
	indexed := commit.Layout{Table: table, Index: "slices"}
	refused(indexed, `created with the index ""`)

	slow, proxy := clientBehindProxy(t)
	filling := indexed
	filling.FillIndex = true
	short, cancel := context.WithCancel(ctx)
	proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == "UpdateItem" && r.Number == 40 {
			cancel()
		}
		return dynamo.Fault{}
	})
	if _, err := dynamostore.Open(short, slow, filling, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	proxy.SetRule(nil)
	refused(indexed, "is not yet filled")
	refused(commit.Layout{Table: table}, `created with the index "slices"`)
	_, err = dynamostore.Open(ctx, slow, filling, o)
	must(err)
	scans := proxy.Counts()["Scan"]
	_, err = dynamostore.Open(ctx, slow, filling, o) // nothing is left to do
	must(err)
	if proxy.Counts()["Scan"] != scans {
		t.Error("a complete index was filled again")
	}

	s, err := dynamostore.Open(ctx, direct, indexed, o)
	must(err)
	var got []annals.Offset
	for _, e := range collect(t, s.Query().Events(ctx, annals.Filter{})) {
		got = append(got, e.Offset())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d events, want %d in order", len(got), len(want))
	}
	var states []annals.PersistenceID
	for _, st := range collect(t, s.Query().States(ctx, annals.Filter{})) {
		states = append(states, st.ID)
	}
	if !slices.Equal(states, []annals.PersistenceID{ids[0], "Own|1", "none", "State|1"}) {
		t.Errorf("states %q", states)
	}
	all := collect(t, s.Query().IDs(ctx, "", ""))
	if wantIDs := append(ids, "State|1", "Own|1", "none"); !slices.Equal(slices.Sorted(slices.Values(all)), slices.Sorted(slices.Values(wantIDs))) {
		t.Errorf("%d ids, want %d", len(all), len(wantIDs))
	}
	if r, err := s.Journal().Append(ctx, annals.Commit{ID: ids[0], After: 4, Events: texts("new")}); err != nil || r.SeqNr != 5 {
		t.Error(r, err)
	}

	// An index of a version that had the groups of neighbouring slices: some queries would not find its events.
	settings := plan.Item{"pid": plan.S("annals"), "seq": plan.N(-1), "layout": plan.S("commit"), "index": plan.S("slices"), "v": plan.N(1)}
	_, err = direct.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: settings})
	must(err)
	refused(indexed, "has format 1, this version reads 2")
	refused(filling, "has format 1, this version reads 2")
}
