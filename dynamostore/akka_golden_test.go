package dynamostore_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Tables that the Pekko plugin wrote are read from a server. Package akka reads all of them without one.
func TestAkkaGolden(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	archive := plantest.Archive(t, "akka/testdata/pekko1.tar.bz2")
	for _, ranged := range []bool{false, true} { // both variants of the plugin's index
		var tables []plantest.Dump
		var want struct {
			PersistenceIDs map[annals.PersistenceID]struct {
				Highest annals.SeqNr
				Events  []struct{ SeqNr annals.SeqNr }
			}
			CurrentPersistenceIDs struct{ Query []annals.PersistenceID }
		}
		unpack(t, archive, "persistence-ids", &tables, &want)
		l := akka.Layout{Journal: akka.Journal{Table: "i" + rand.Text(), IDIndex: "persistence-ids-idx"}, Snapshot: akka.Snapshot{Off: true}}
		if ranged {
			createRanged(t, c, l.Journal)
		}
		openAkka(t, c, l, dynamostore.Options{CreateTables: true})
		putAll(t, c, l.Journal.Table, tables[0].Items)
		s := openAkka(t, c, l, dynamostore.Options{}) // checks the items
		for id, e := range want.PersistenceIDs {
			last, err := s.Journal().LastSeqNr(ctx, id)
			if got := len(replay(ctx, t, s, id, 1, annals.MaxSeqNr)); err != nil || last != e.Highest || got != len(e.Events) {
				t.Errorf("%q: last number %d, %v, %d events, want %d and %d", id, last, err, got, e.Highest, len(e.Events))
			}
		}
		ids := slices.Concat(want.CurrentPersistenceIDs.Query, []annals.PersistenceID{"head-deleted", "all-deleted"})
		slices.Sort(ids)
		var listed []annals.PersistenceID
		for id, err := range s.Query().IDs(ctx, "", "") {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, id)
		}
		if !slices.Equal(listed, ids) {
			t.Errorf("with a range key %v: ids %q, want %q", ranged, listed, ids)
		}
	}

	var tables []plantest.Dump
	var want struct {
		PersistenceIDs map[annals.PersistenceID]struct {
			Snapshots []struct{ Snapshot *struct{ SeqNr annals.SeqNr } }
		}
	}
	unpack(t, archive, "snapshots", &tables, &want)
	l := akka.Layout{Journal: akka.Journal{Off: true}, Snapshot: akka.Snapshot{Table: "s" + rand.Text(), ByTime: true}}
	s := openAkka(t, c, l, dynamostore.Options{CreateTables: true})
	putAll(t, c, l.Snapshot.Table, tables[1].Items)
	for id, e := range want.PersistenceIDs {
		got, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{}) // the first that was asked for
		if want := e.Snapshots[0].Snapshot; err != nil || ok != (want != nil) || ok && got.SeqNr != want.SeqNr {
			t.Errorf("newest snapshot of %q by time: %d, %v, %v", id, got.SeqNr, ok, err)
		}
	}
}

func unpack(t *testing.T, archive map[[2]string][]byte, scenario string, tables *[]plantest.Dump, expected any) {
	t.Helper()
	if err := errors.Join(json.Unmarshal(archive[[2]string{scenario, "tables.json"}], tables), json.Unmarshal(archive[[2]string{scenario, "expected.json"}], expected)); err != nil {
		t.Fatal(err)
	}
}

func putAll(t *testing.T, c *dynamodb.Client, table string, items []plantest.Dumped) {
	t.Helper()
	for chunk := range slices.Chunk(items, 25) {
		var puts []types.WriteRequest
		for _, it := range chunk {
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		}
		out, err := c.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: puts}})
		if err != nil || len(out.UnprocessedItems) > 0 {
			t.Fatal(err, len(out.UnprocessedItems))
		}
	}
}

// createRanged creates a journal table whose index of ids has a range key.
func createRanged(t *testing.T, c *dynamodb.Client, j akka.Journal) {
	t.Helper()
	key := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &j.Table, KeySchema: key("par", "num"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("par"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("num"), AttributeType: types.ScalarAttributeTypeN}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: &j.IDIndex, KeySchema: key("num", "par"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}}}})
	if err != nil {
		t.Fatal(err)
	}
}

func openAkka(t *testing.T, c *dynamodb.Client, l akka.Layout, o dynamostore.Options) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.Open(t.Context(), c, l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The recorded defects of the plugins in which the service or the connection fails, or which need the pages of the service. Package akka
// has the others.
func TestAkkaDefects(t *testing.T) {
	t.Parallel()
	c, p := clientBehindProxy(t)
	prefix := "d" + rand.Text()
	l := akka.Layout{Journal: akka.Journal{Table: prefix + "j", SequenceShards: 150}, Snapshot: akka.Snapshot{Table: prefix + "s"}}
	s := openAkka(t, c, l, dynamostore.Options{CreateTables: true, Attempts: 3})
	ctx := t.Context()
	appends := func(id annals.PersistenceID, after annals.SeqNr, count, size int) annals.SeqNr {
		t.Helper()
		e := annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: make([]byte, size)}}
		r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: slices.Repeat([]annals.NewEvent{e}, count)})
		if err != nil {
			t.Fatal(err)
		}
		return r.SeqNr
	}
	check := func(id annals.PersistenceID, events int, last annals.SeqNr) {
		t.Helper()
		got, err := s.Journal().LastSeqNr(ctx, id)
		if all := len(replay(ctx, t, s, id, 1, annals.MaxSeqNr)); err != nil || got != last || all != events {
			t.Errorf("%q: last number %d, %v, %d events, want %d and %d", id, got, err, all, last, events)
		}
	}

	// unprocessed-P, unprocessed-SH: the write at 100 meets a service that does not process it.
	appends("unprocessed", 0, 99, 1)
	p.SetRule(first("TransactWriteItems", p, dynamo.Fault{Throttle: true}))
	appends("unprocessed", 99, 1, 1)
	if n := p.Counts()["TransactWriteItems"]; n != 3 {
		t.Errorf("%d transactions", n) // the first 99 events, the one at 100, and that again
	}
	p.SetRule(nil)
	appends("unprocessed", 100, 2, 1)
	check("unprocessed", 102, 102)
	marker, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: &l.Journal.Table, Key: map[string]types.AttributeValue{
		"par": &types.AttributeValueMemberS{Value: "journal-SH-unprocessed-1"}, "num": &types.AttributeValueMemberN{Value: "0"}}})
	if err != nil || len(marker.Item) == 0 {
		t.Errorf("the high mark: %v, %v", marker, err)
	}

	// delete-errors: a delete is refused, first once, then until the delete fails.
	appends("delete", 0, 6, 1)
	p.SetRule(first("BatchWriteItem", p, dynamo.Fault{Status: http.StatusInternalServerError}))
	if err := s.Journal().DeleteTo(ctx, "delete", 2); err != nil || p.Counts()["BatchWriteItem"] != 2 {
		t.Error(err, p.Counts())
	}
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == "BatchWriteItem" {
			return dynamo.Fault{Status: http.StatusInternalServerError}
		}
		return dynamo.Fault{}
	})
	if err := s.Journal().DeleteTo(ctx, "delete", 4); err == nil {
		t.Error("a delete that was refused: no error")
	}
	p.SetRule(nil)
	check("delete", 2, 6)
	if err := s.Journal().DeleteTo(ctx, "delete", 5); err != nil {
		t.Error(err)
	}
	if found, _, _, err := akka.ListAll(ctx, s, "delete"); err != nil || !slices.Equal(found, []annals.SeqNr{6}) {
		t.Errorf("left after deletes: %v, %v", found, err)
	}

	// partial-marker-read: the marks of 150 shards take two requests, one of which fails.
	for _, n := range []annals.SeqNr{1, 100, 12000, 12001} {
		appends("marks", n-1, 1, 1)
	}
	begun := p.Counts()["BatchGetItem"]
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == "BatchGetItem" && r.Number > begun+1 {
			return dynamo.Fault{Status: http.StatusInternalServerError}
		}
		return dynamo.Fault{}
	})
	if last, err := s.Journal().LastSeqNr(ctx, "marks"); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("last number while marks cannot be read: %d, %v", last, err)
	}
	p.SetRule(nil)
	if last, err := s.Journal().LastSeqNr(ctx, "marks"); err != nil || last != 12001 {
		t.Errorf("last number: %d, %v", last, err)
	}

	// snapshot-delete-one-page
	for n := range annals.SeqNr(6) {
		if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: "page", SeqNr: n + 1, Payload: annals.Payload{SerializerID: 4, Data: make([]byte, 390_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Snapshots().Delete(ctx, "page", annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
		t.Error(err)
	}
	if got, ok, err := s.Snapshots().Latest(ctx, "page", annals.SnapshotCriteria{}); ok || err != nil {
		t.Errorf("a snapshot after a delete of all: %d, %v", got.SeqNr, err)
	}

	// large-group: a group has several pages.
	for n := annals.SeqNr(0); n < 99; {
		n = appends("large", n, 33, 40_000)
	}
	check("large", 99, 99)
}

// first is a rule by which the next request of an operation meets a fault.
func first(operation string, p *dynamo.FaultProxy, f dynamo.Fault) func(dynamo.Request) dynamo.Fault {
	begun := p.Counts()[operation]
	return func(r dynamo.Request) dynamo.Fault {
		if r.Operation == operation && r.Number == begun+1 {
			return f
		}
		return dynamo.Fault{}
	}
}
