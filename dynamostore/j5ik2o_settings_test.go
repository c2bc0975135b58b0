package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// j5ik2oTables are new tables of the plugin that can be opened with different settings.
type j5ik2oTables struct {
	*testing.T
	client *dynamodb.Client
	layout j5ik2o.Layout
}

func newJ5ik2oTables(t *testing.T) j5ik2oTables {
	t.Helper()
	prefix := "s" + rand.Text()
	return j5ik2oTables{t, client(t), j5ik2o.Layout{Journal: j5ik2o.Journal{Table: prefix + "j"}, Snapshot: j5ik2o.Snapshot{Table: prefix + "s"}, State: j5ik2o.State{Table: prefix + "d"}}}
}

// with returns the layout after change.
func (s j5ik2oTables) with(change func(l *j5ik2o.Layout)) j5ik2o.Layout {
	l := s.layout
	change(&l)
	return l
}

func (s j5ik2oTables) open(l j5ik2o.Layout, o dynamostore.Options) *dynamostore.Store {
	s.Helper()
	o.CreateTables = true
	store, err := dynamostore.Open(s.Context(), s.client, l, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = store.Close() })
	return store
}

// wantMisfit checks that err is ErrInvalid and says what does not fit.
func (s j5ik2oTables) wantMisfit(what string, err error, says string) {
	s.Helper()
	if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), says) {
		s.Errorf("%s: got %v, want it invalid, with %q", what, err, says)
	}
}

func byNumber(l *j5ik2o.Layout) {
	l.Journal.PartitionKey, l.Snapshot.PartitionKey = j5ik2o.SequenceNumberBased, j5ik2o.SequenceNumberBased
}

func recoverAll(s annals.Store, t *testing.T, id annals.PersistenceID) (numbers []annals.SeqNr, last annals.SeqNr, err error) {
	t.Helper()
	last, err = ability.Recover(t.Context(), s, id, func(s annals.Snapshot) error {
		numbers = append(numbers[:0], -s.SeqNr)
		return nil
	}, func(e annals.Event) error {
		numbers = append(numbers, e.SeqNr)
		return nil
	})
	return numbers, last, err
}

// After an upgrade of the plugin to version 1.12 a table has old ids with SequenceNumberBased and new ids with the new default. Open notices
// this in the rows that it compares. The rows of this test were written after Open, like rows that Open does not compare.
func TestJ5ik2oRowsOfAnotherSetting(t *testing.T) {
	t.Parallel()
	s, ctx := newJ5ik2oTables(t), t.Context()
	now, before := s.open(s.layout, dynamostore.Options{}), s.open(s.with(byNumber), dynamostore.Options{})
	const both, old, deleted = annals.PersistenceID("Thing-1"), annals.PersistenceID("Thing-2"), annals.PersistenceID("Thing-3")
	fill(ctx, t, before, both, 5, 1, 10)
	fill(ctx, t, before, old, 5, 1, 10)
	fill(ctx, t, before, deleted, 5, 1, 10)
	if err := before.Journal().DeleteTo(ctx, deleted, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	if _, err := now.Journal().Append(ctx, annals.Commit{ID: both, After: 5, Events: texts("6", "7")}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []annals.PersistenceID{both, old, deleted} {
		numbers, last, err := recoverAll(now, t, id)
		s.wantMisfit(fmt.Sprintf("recover %s: %v up to %d", id, numbers, last), err, string(id))
		_, err = now.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("1")})
		s.wantMisfit(fmt.Sprintf("append the first event of %s", id), err, "Index")
		for _, err = range now.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			if err != nil {
				break
			}
		}
		s.wantMisfit(fmt.Sprintf("replay %s", id), err, "Index")
	}
	for _, id := range []annals.PersistenceID{old, deleted} {
		_, err := now.Journal().LastSeqNr(ctx, id)
		s.wantMisfit(fmt.Sprintf("last number of %s", id), err, "Index")
		s.wantMisfit(fmt.Sprintf("delete %s", id), now.Journal().DeleteTo(ctx, id, 3), "Index")
		s.wantMisfit(fmt.Sprintf("skip %s", id), now.Unwrap().(ability.Skipper).SkipTo(ctx, id, 0, 3), "Index")
	}
	through := s.open(s.with(func(l *j5ik2o.Layout) { l.ByIndex = true }), dynamostore.Options{})
	if numbers, last, err := recoverAll(through, t, both); len(numbers) != 7 || last != 7 || err != nil {
		t.Errorf("through the index: recovered %v up to %d, %v", numbers, last, err)
	}
}

// Snapshots with another shard count are not found by key, and the events that they cover are deleted.
func TestJ5ik2oSnapshotsOfAnotherSetting(t *testing.T) {
	t.Parallel()
	s, ctx := newJ5ik2oTables(t), t.Context()
	other := s.with(func(l *j5ik2o.Layout) { l.Snapshot.ShardCount = 63 })
	now, before := s.open(s.layout, dynamostore.Options{}), s.open(other, dynamostore.Options{})
	const id = annals.PersistenceID("Thing-1")
	fill(ctx, t, before, id, 10, 1, 10)
	if err := before.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 8, Payload: text("8").Payload}); err != nil {
		t.Fatal(err)
	}
	if err := before.Journal().DeleteTo(ctx, id, 5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		numbers, last, err := recoverAll(now, t, id)
		s.wantMisfit(fmt.Sprintf("recovered %v up to %d", numbers, last), err, string(id))
	}
	_, _, err := now.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
	s.wantMisfit("newest snapshot", err, string(id))
	s.wantMisfit("delete snapshots", now.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: 9}), string(id))
}

// Open checks that rows have the key of the settings and columns of the right types.
func TestJ5ik2oOpenChecksSettings(t *testing.T) {
	t.Parallel()
	s, ctx := newJ5ik2oTables(t), t.Context()
	store := s.open(s.layout, dynamostore.Options{})
	for i := range 3 {
		id := annals.PersistenceID(fmt.Sprintf("Thing_1-%d", i))
		e := text("event")
		e.Tags = []string{"red"}
		if _, err := store.Journal().Append(ctx, annals.Commit{ID: id, Events: []annals.NewEvent{e}}); err != nil {
			t.Fatal(err)
		}
		if err := store.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 1, Payload: text("snapshot").Payload}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.States().Put(ctx, annals.StateWrite{ID: id, Payload: annals.Payload{SerializerID: 31, Manifest: "m", Data: []byte("state")}, Tags: []string{"red"}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(l *j5ik2o.Layout)
		says   string
	}{
		"journal shard count":  {func(l *j5ik2o.Layout) { l.Journal.ShardCount = 63 }, "Thing_1-"},
		"journal separator":    {func(l *j5ik2o.Layout) { l.Journal.Separator = "_" }, "Thing_1-"},
		"journal message":      {func(l *j5ik2o.Layout) { l.Journal.Columns.Message = "x" }, `"x"`},
		"journal ordering":     {func(l *j5ik2o.Layout) { l.Journal.Columns.Ordering = "x" }, `"x"`},
		"journal deleted":      {func(l *j5ik2o.Layout) { l.Journal.Columns.Deleted = "x" }, `"x"`},
		"journal tags":         {func(l *j5ik2o.Layout) { l.Journal.Columns.Tags = "x" }, `"tags"`},
		"journal types":        {func(l *j5ik2o.Layout) { l.Journal.Columns.Tags, l.Journal.Columns.Ordering = "ordering", "tags" }, "type"},
		"snapshot shard count": {func(l *j5ik2o.Layout) { l.Snapshot.ShardCount = 63 }, "Thing_1-"},
		"snapshot separator":   {func(l *j5ik2o.Layout) { l.Snapshot.Separator = "_" }, "Thing_1-"},
		"snapshot resolver":    {func(l *j5ik2o.Layout) { l.Snapshot.PartitionKey = j5ik2o.SequenceNumberBased }, "Thing_1-"},
		"snapshot bytes":       {func(l *j5ik2o.Layout) { l.Snapshot.Columns.Snapshot = "x" }, `"x"`},
		"snapshot created":     {func(l *j5ik2o.Layout) { l.Snapshot.Columns.Created = "x" }, `"x"`},
		"state shard count":    {func(l *j5ik2o.Layout) { l.State.ShardCount = 63 }, "Thing_1-"},
		"state separator":      {func(l *j5ik2o.Layout) { l.State.Separator = "_" }, "Thing_1-"},
		"state prefixes": {func(l *j5ik2o.Layout) {
			l.State.Table, l.State.Prefixes = "other"+rand.Text(), []string{l.State.Table}
		}, "Thing_1-"},
		"state revision":       {func(l *j5ik2o.Layout) { l.State.Columns.Revision = "x" }, `"x"`},
		"state payload":        {func(l *j5ik2o.Layout) { l.State.Columns.Payload = "x" }, `"x"`},
		"state serializer":     {func(l *j5ik2o.Layout) { l.State.Columns.SerializerID = "x" }, `"x"`},
		"state manifest":       {func(l *j5ik2o.Layout) { l.State.Columns.SerializerManifest = "x" }, `"serializer-manifest"`},
		"state ordering":       {func(l *j5ik2o.Layout) { l.State.Columns.Ordering = "x" }, `"x"`},
		"state tags":           {func(l *j5ik2o.Layout) { l.State.Columns.Tags = "x" }, `"tags"`},
		"state persistence id": {func(l *j5ik2o.Layout) { l.State.Columns.PersistenceID = "x" }, `"x"`},
	} {
		opened, err := dynamostore.Open(ctx, s.client, s.with(c.change), dynamostore.Options{CreateTables: true})
		if err == nil {
			_ = opened.Close()
		}
		s.wantMisfit(name, err, c.says)
	}
}

// OtherColumns names attributes that are not the plugin's.
func TestJ5ik2oOtherColumns(t *testing.T) {
	t.Parallel()
	s, ctx := newJ5ik2oTables(t), t.Context()
	store := s.open(s.layout, dynamostore.Options{})
	fill(ctx, t, store, "Thing-1", 1, 1, 10)
	rows, err := s.client.Scan(ctx, &dynamodb.ScanInput{TableName: &s.layout.Journal.Table})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows.Items {
		row["colour"] = &types.AttributeValueMemberS{Value: "red"}
		if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.layout.Journal.Table, Item: row}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = dynamostore.Open(ctx, s.client, s.layout, dynamostore.Options{})
	s.wantMisfit("an unknown attribute", err, `"colour"`)
	s.open(s.with(func(l *j5ik2o.Layout) { l.OtherColumns = []string{"colour"} }), dynamostore.Options{})
	columns := annals.StateType[*dynamostore.Tx]{Columns: []string{"title"}, Bind: func(annals.State) (annals.Columns, error) { return annals.Columns{"title": "a"}, nil }}
	types := dynamostore.Options{StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Post": columns}}
	other := newJ5ik2oTables(t)
	if _, err := other.open(other.layout, types).States().Put(ctx, annals.StateWrite{ID: "Post|1-1", Payload: text("state").Payload}); err != nil {
		t.Fatal(err)
	}
	other.open(other.layout, types) // knows the columns of its types
}

// A page can be full of rows of one entity, so Open reads several parts of a table.
func TestJ5ik2oOpenChecksManyPlaces(t *testing.T) {
	t.Parallel()
	s, ctx := newJ5ik2oTables(t), t.Context()
	fitting, old := s.open(s.layout, dynamostore.Options{}), s.open(s.with(byNumber), dynamostore.Options{})
	for i := range 8 { // most of the rows are of few entities
		fill(ctx, t, fitting, annals.PersistenceID(fmt.Sprintf("Thing-%d", i)), 40, 20, 10)
	}
	fill(ctx, t, old, "Old-1", 20, 20, 10)
	_, err := dynamostore.Open(ctx, s.client, s.layout, dynamostore.Options{})
	s.wantMisfit("20 of 340 rows under other keys", err, "Old-1")
}

// To find out that an id is new takes one request, once.
func TestJ5ik2oAsksTheIndexOnce(t *testing.T) {
	t.Parallel()
	ctx, seen := t.Context(), &recorder{}
	s := newJ5ik2oTables(t)
	store := s.open(s.layout, dynamostore.Options{Observer: seen})
	wantRequests := func(what string, want int) {
		t.Helper()
		if r := seen.last(); r.Requests != want || r.ReadUnits > float64(want) {
			t.Errorf("%s: %d requests, %v read units; want %d", what, r.Requests, r.ReadUnits, want)
		}
	}
	const id = annals.PersistenceID("Thing-1")
	for i, want := range []int{3, 2} {
		if _, last, err := recoverAll(store, t, id); last != 0 || err != nil {
			t.Fatal(last, err)
		}
		wantRequests(fmt.Sprintf("recovery %d of an entity without events: snapshot, events, and the index once", i+1), want)
	}
	fill(ctx, t, store, id, 1, 1, 10)
	wantRequests("the first append, after a recovery", 1)
	if _, err := store.Journal().Append(ctx, annals.Commit{ID: "Thing-2", Events: texts("1")}); err != nil {
		t.Fatal(err)
	}
	wantRequests("the first append of an id that the process does not know", 2)
	for n, want := range []int{2, 2} {
		if _, last, err := recoverAll(store, t, id); last != 1 || err != nil {
			t.Fatal(last, err)
		}
		wantRequests(fmt.Sprintf("recovery %d of an entity with events", n+1), want)
	}
	if _, _, err := store.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{}); err != nil {
		t.Fatal(err)
	}
	wantRequests("no snapshot: the keys and the index", 2)
}

// To find out that an id is new takes few requests, also where its rows can be in 64 partitions.
func TestJ5ik2oNewEntity(t *testing.T) {
	t.Parallel()
	const shards, id = 64, annals.PersistenceID("Thing-1")
	for name, c := range map[string]struct {
		change              func(l *j5ik2o.Layout)
		recovery, last, all int // requests: of a new entity, of its last number, of the recovery of one with an event
	}{
		"few requests": {byNumber, 1 + 2, 2, 1 + 1 + shards},
		"hard deletes": {func(l *j5ik2o.Layout) {
			byNumber(l)
			l.Journal.HardDelete = true
		}, 1 + 2 + 2, 2, 1 + 1 + shards + 1},
		"no index": {func(l *j5ik2o.Layout) {
			byNumber(l)
			l.NoIndex = true
		}, shards + shards, shards + 1, shards + shards},
	} {
		ctx, seen := t.Context(), &recorder{}
		s := newJ5ik2oTables(t)
		store := s.open(s.with(c.change), dynamostore.Options{Observer: seen})
		wantRequests := func(what string, want int) {
			t.Helper()
			if r := seen.last(); r.Requests != want {
				t.Errorf("%s: %s: %d requests, want %d", name, what, r.Requests, want)
			}
		}
		recovered := func(want annals.SeqNr) {
			t.Helper()
			if _, last, err := recoverAll(store, t, id); last != want || err != nil {
				t.Fatalf("%s: last number %d, error %v, want %d", name, last, err, want)
			}
		}
		recovered(0)
		wantRequests("recovery of a new entity", c.recovery)
		if last, err := store.Journal().LastSeqNr(ctx, id); last != 0 || err != nil {
			t.Fatal(last, err)
		}
		wantRequests("last number of a new entity", c.last)
		fill(ctx, t, store, id, 1, 1, 10)
		wantRequests("its first append", 1)
		recovered(1)
		wantRequests("recovery of an entity with an event", c.all)
	}
}
