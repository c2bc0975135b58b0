package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// openIndexed opens a store on a new table with an index.
func openIndexed(t testing.TB, c dynamostore.Client, o dynamostore.Options) (s *dynamostore.Store, table string) {
	t.Helper()
	o.CreateTables = true
	table = "t" + rand.Text()
	s, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: table, Index: "slices"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, table
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// A commit of a known type takes one request, and one more unit for the index.
func TestIndexCosts(t *testing.T) {
	t.Parallel()
	ctx, c, seen := t.Context(), client(t), &recorder{}
	s, table := openIndexed(t, c, dynamostore.Options{Observer: seen})
	cost := func(name string, requests int, writes float64) {
		t.Helper()
		if r := seen.last(); r.Requests != requests || r.WriteUnits > writes {
			t.Errorf("%s: %d requests, %v write units; want %d and %v", name, r.Requests, r.WriteUnits, requests, writes)
		}
	}
	add := func(s annals.Store, id annals.PersistenceID, after annals.SeqNr) {
		t.Helper()
		if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: texts(strings.Repeat("x", 900))}); err != nil {
			t.Fatal(err)
		}
	}
	add(s, "Thing|1", 0)
	cost("the first append of a type", 2, 3)
	add(s, "Thing|1", 1)
	cost("append of one event of 900 bytes", 1, 2)
	add(s, "Thing|2", 0)
	cost("append to another entity", 1, 2)
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: "Thing|1", Payload: text("state").Payload}); err != nil {
		t.Fatal(err)
	}
	cost("a first state", 1, 2)
	again, err := dynamostore.Open(ctx, c, commit.Layout{Table: table, Index: "slices"}, dynamostore.Options{Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	add(again, "Thing|3", 0)
	cost("the first append of another process", 1, 2)
	collect(t, again.Query().Events(ctx, annals.Filter{Type: "Thing", Slices: annals.SpreadRanges(4)[1]}))
	cost("query of a type in a quarter of the slices", 4, 0)
	collect(t, again.Query().IDs(ctx, "Thing", ""))
	cost("ids of a type", 32, 0)
	if r := seen.last(); r.Result.Events != 0 {
		t.Errorf("ids are told as %d events", r.Result.Events)
	}
}

// Commits of the same time are in many partitions, on both sides of page edges, and in no order.
func TestTies(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	s, table := openIndexed(t, c, dynamostore.Options{})
	var want []annals.Offset
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for i := range 48 {
		id := annals.NewPersistenceID([]string{"A", "B", "C"}[i%3], fmt.Sprint(i))
		if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("one", "two", "three")}); err != nil {
			t.Fatal(err)
		}
		at := at.Add(time.Duration(i%2) * time.Microsecond)
		if _, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &table, Key: plan.Item{"pid": plan.S(string(id)), "seq": plan.N(1)},
			UpdateExpression: aws.String("SET #at = :at"), ExpressionAttributeNames: map[string]string{"#at": "at"},
			ExpressionAttributeValues: plan.Item{":at": plan.Micros(at)}}); err != nil {
			t.Fatal(err)
		}
		for n := range annals.SeqNr(3) {
			want = append(want, annals.Offset{Time: at, ID: id, SeqNr: n + 1})
		}
	}
	slices.SortFunc(want, annals.Offset.Compare)
	for _, limit := range []int{17, 0} { // 17: pages end at the first, the second and the last event of a commit
		var got []annals.Offset
		for f := (annals.Filter{Limit: limit}); ; {
			page := collect(t, s.Query().Events(ctx, f))
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, e.Offset())
			}
			f.After = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %d offsets, want %d in order", limit, len(got), len(want))
		}
	}
	if newest, err := s.Query().Newest(ctx, annals.Filter{}); err != nil || newest != want[len(want)-1] {
		t.Error(newest, err)
	}
	between := collect(t, s.Query().Events(ctx, annals.Filter{After: annals.Offset{Time: at.Add(time.Nanosecond)}}))
	if len(between) != 24*3 || !between[0].Time.After(at) {
		t.Errorf("%d events after an offset between two microseconds", len(between))
	}
}

// With many types, and so many partitions, pages are small, so that all of them fit into memory.
func TestManyTypes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := newPair(t)
	for i := range 100 {
		p.append(annals.NewPersistenceID(fmt.Sprint("T", i), "1"), 0, "a")
	}
	for n := range annals.SeqNr(50) {
		p.append("T7|1", n+1, "b")
	}
	pages := 0
	p.proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
		if body := string(r.Body); strings.Contains(body, `"Limit":5,`) || strings.Contains(body, "ExclusiveStartKey") && strings.Contains(body, `"Limit":`) {
			pages++ // the size of what was read decides the limit of a later page
		} else if r.Indexed() {
			t.Errorf("a request for a page of any size: %s", r.Body)
		}
		return dynamo.Fault{}
	})
	events := collect(t, p.slow.Query().Events(ctx, annals.Filter{}))
	if !slices.IsSortedFunc(events, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) }) || len(events) != 150 {
		t.Errorf("%d events, or not in order", len(events))
	}
	if pages != 100*16+1 {
		t.Errorf("%d pages, want one for each partition and one more for the one with 51 commits", pages)
	}
}

// A query yields nothing that was written after its call, however slowly it is read. Otherwise it would yield such writes of some partitions
// and not of others.
func TestQueryEndsAtItsCall(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	large := text(strings.Repeat("x", 200<<10)) // five to a page
	last := map[annals.PersistenceID]annals.SeqNr{}
	for i := 0; len(last) < 8; i++ {
		if id := annals.NewPersistenceID("Thing", fmt.Sprint(i)); annals.SpreadRanges(8)[0].Contains(id.Slice()) { // two partitions
			last[id] = 0
		}
	}
	round := func() {
		for id, after := range last {
			r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{large}})
			if err != nil {
				t.Fatal(err)
			}
			last[id] = r.SeqNr
		}
	}
	for range 4 {
		round()
	}
	n := 0
	for e, err := range s.Query().Events(ctx, annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%12 == 1 {
			round()
		}
		if e.SeqNr > 4 {
			t.Fatalf("event %d of %q is after the call", e.SeqNr, e.ID)
		}
	}
	if n != 32 {
		t.Errorf("%d events, want 32", n)
	}
}

// A lagging index can have a later commit of one partition before it has an earlier one of another. A follower that continues after the last
// offset misses the earlier commit; one that looks back by the lag finds it.
func TestFollowerOfALaggingIndex(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	group := annals.SpreadRanges(16)[1]
	ids := append(idsIn(group, 1), "Thing|elsewhere")
	if group.Contains(ids[1].Slice()) {
		t.Fatal("both are in one partition")
	}
	for _, id := range ids {
		p.append(id, 0, "a")
	}
	lagging := true
	p.proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
		if lagging && r.Indexed() && strings.Contains(string(r.Body), `"Thing#01"`) {
			return dynamo.Fault{HideNewest: 1}
		}
		return dynamo.Fault{}
	})
	seen := func(f annals.Filter) (seen []annals.PersistenceID) {
		for _, e := range collect(t, p.slow.Query().Events(t.Context(), f)) {
			seen = append(seen, e.ID)
		}
		return seen
	}
	first := collect(t, p.slow.Query().Events(t.Context(), annals.Filter{}))
	if len(first) != 1 || first[0].ID != ids[1] {
		t.Fatalf("after the lag: %v", first)
	}
	lagging = false
	if got := seen(annals.Filter{After: first[0].Offset()}); got != nil {
		t.Errorf("after the last offset: %q", got)
	}
	if got := seen(annals.Filter{After: annals.Offset{Time: first[0].Time.Add(-time.Minute)}}); !slices.Equal(got, ids) {
		t.Errorf("looking back: %q", got)
	}
	lagging = true
	if got := seen(annals.Filter{Behind: time.Hour}); got != nil {
		t.Errorf("held back by an hour: %q", got)
	}
}

// A transaction that fails has not stored its events, so it does not tell the time of an event that another process stores with its number.
func TestTimesAfterATransactionThatFails(t *testing.T) {
	t.Parallel()
	ctx, c, mine := t.Context(), client(t), errors.New("mine")
	s, table := openIndexed(t, c, dynamostore.Options{})
	ahead, err := dynamostore.Open(ctx, c, commit.Layout{Table: table, Index: "slices"}, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ahead.Close() })
	dynamostore.SetClock(ahead, time.Now().Add(time.Minute))
	appendTo := func(s annals.Store, after annals.SeqNr) annals.Receipt {
		r, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1", After: after, Events: texts("a")})
		if err != nil {
			t.Error(err)
		}
		return r
	}
	appendTo(s, 0)
	if err := s.InTx(ctx, func(_ context.Context, _ *dynamostore.Tx, in annals.Store) error { appendTo(in, 1); return mine }); !errors.Is(err, mine) {
		t.Fatal(err)
	}
	if before, after := appendTo(ahead, 1), appendTo(s, 2); after.Time.Before(before.Time) {
		t.Errorf("event 3 has the time %v, and event 2 %v", after.Time, before.Time)
	}
}

// A write that was delayed by throttling has the time at which it was stored.
func TestThrottledWritesAreStampedAnew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, p := clientBehindProxy(t)
	s, _ := openIndexed(t, c, dynamostore.Options{})
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|0", Events: texts("announced")}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var refused time.Time // the last one
	throttle := func() {
		left := 2
		p.SetRule(func(r dynamo.Request) dynamo.Fault {
			mu.Lock()
			defer mu.Unlock()
			if !r.Writes() || left == 0 {
				return dynamo.Fault{}
			}
			left--
			refused = time.Now()
			return dynamo.Fault{Throttle: true}
		})
	}
	id := annals.PersistenceID("Thing|1")
	snapshot := &annals.Snapshot{ID: id, SeqNr: 2, Payload: text("snapshot").Payload}
	for what, write := range map[string]func() (annals.Receipt, error){
		"append": func() (annals.Receipt, error) {
			return s.Journal().Append(ctx, annals.Commit{ID: "Thing|2", Events: texts("a", "b")})
		},
		"append with a snapshot": func() (annals.Receipt, error) {
			return s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("a", "b"), Snapshot: snapshot})
		},
		"state": func() (annals.Receipt, error) {
			return s.States().Put(ctx, annals.StateWrite{ID: "Thing|3", Payload: text("a").Payload})
		},
		"state with an event": func() (annals.Receipt, error) {
			e := text("a")
			return s.States().Put(ctx, annals.StateWrite{ID: "Thing|4", Payload: text("a").Payload, Event: &e})
		},
	} {
		throttle()
		r, err := write()
		if err != nil {
			t.Fatal(err)
		}
		if r.Time.Before(refused) {
			t.Errorf("%s: it has a time %v before it was refused last", what, refused.Sub(r.Time))
		}
		p.SetRule(nil)
	}
	stored := map[annals.PersistenceID]time.Time{}
	for _, e := range collect(t, s.Query().Events(ctx, annals.Filter{})) {
		stored[e.ID] = e.Time
	}
	for _, st := range collect(t, s.Query().States(ctx, annals.Filter{})) {
		if at, also := stored[st.ID]; also && !at.Equal(st.Time) {
			t.Errorf("%q: the state is of %v, its event of %v", st.ID, st.Time, at)
		}
	}
	if len(stored) != 4 {
		t.Errorf("events of %d entities, want 4", len(stored))
	}
}

// The entity types of a transaction's writes are added to the settings once, even if the transaction fails.
func TestTypesInTransactions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	broken := errors.New("broken off")
	for _, want := range []error{broken, nil} {
		err := s.InTx(ctx, func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
			for _, id := range []annals.PersistenceID{"A|1", "A|2", "B|1", "none"} {
				if _, err := in.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("a")}); err != nil {
					return err
				}
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	ids := collect(t, s.Query().IDs(ctx, "", ""))
	slices.Sort(ids)
	if !slices.Equal(ids, []annals.PersistenceID{"A|1", "A|2", "B|1", "none"}) {
		t.Errorf("%q", ids)
	}
}

// The longest id fits into the key of the index.
func TestLongestIndexedID(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	id := annals.PersistenceID(strings.Repeat("x", s.Capabilities().Limits.MaxIDBytes-1) + "|")
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("a")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: text("a").Payload}); err != nil {
		t.Fatal(err)
	}
	if ids := collect(t, s.Query().IDs(ctx, id.Type(), "")); !slices.Equal(ids, []annals.PersistenceID{id}) {
		t.Errorf("%d ids", len(ids))
	}
	for e, err := range s.Query().Events(ctx, annals.Filter{Type: strings.Repeat("x", 3000)}) { // such a type has no index key
		t.Errorf("%v, %v", e, err)
	}
}

func TestWrongFilters(t *testing.T) {
	t.Parallel()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	for _, f := range []annals.Filter{{Limit: -1}, {Behind: -1}, {Slices: annals.SliceRange{From: 5, To: 5}}, {Slices: annals.SliceRange{To: 1025}}} {
		_, err := s.Query().Newest(t.Context(), f)
		for _, err2 := range s.Query().Events(t.Context(), f) {
			err = errors.Join(err, err2)
		}
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// Open refuses a table that was created with another index, and an index that is not what the layout needs.
func TestIndexIsChecked(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	_, indexed := openIndexed(t, c, dynamostore.Options{})
	plain := "t" + rand.Text()
	if _, err := dynamostore.Open(ctx, c, commit.Layout{Table: plain}, dynamostore.Options{CreateTables: true}); err != nil {
		t.Fatal(err)
	}
	create := func(hash, sort string, numbers bool, projection types.ProjectionType) string {
		name := "t" + rand.Text()
		kind := types.ScalarAttributeTypeS
		if numbers {
			kind = types.ScalarAttributeTypeN
		}
		key := func(hash, sort string) []types.KeySchemaElement {
			return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
		}
		in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, KeySchema: key("pid", "seq"),
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("pid"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("seq"), AttributeType: types.ScalarAttributeTypeN},
				{AttributeName: &hash, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: &sort, AttributeType: kind}},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("slices"), KeySchema: key(hash, sort), Projection: &types.Projection{ProjectionType: projection}}}}
		if _, err := c.CreateTable(ctx, in); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, test := range []struct {
		layout commit.Layout
		says   string
	}{
		{commit.Layout{Table: indexed}, `created with the index "slices" for queries, not with ""`},
		{commit.Layout{Table: indexed, Index: "other"}, `index "other"`},
		{commit.Layout{Table: plain, Index: "slices"}, `index "slices"`},
		{commit.Layout{Table: create("other", "at", true, types.ProjectionTypeAll), Index: "slices"}, `hash key "other (S)", not "feed (S)"`},
		{commit.Layout{Table: create("feed", "at", false, types.ProjectionTypeAll), Index: "slices"}, `range key "at (S)", not "at (N)"`},
		{commit.Layout{Table: create("feed", "at", true, types.ProjectionTypeKeysOnly), Index: "slices"}, `does not project all`},
	} {
		_, err := dynamostore.Open(ctx, c, test.layout, dynamostore.Options{})
		if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.layout.Table) {
			t.Errorf("%+v: %v", test.layout, err)
		}
	}
}

// States of a type that has its own table are found, listed and forgotten there.
func TestStateTablesHaveTheIndex(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, table := openIndexed(t, client(t), dynamostore.Options{
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Own": {Table: "own" + rand.Text()}}})
	for _, id := range []annals.PersistenceID{"Own|1", "Own|2", "Other|1"} {
		if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: text("state").Payload}); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(f annals.Filter) (all []annals.PersistenceID) {
		for _, st := range collect(t, s.Query().States(ctx, f)) {
			all = append(all, st.ID)
		}
		return all
	}
	if got := ids(annals.Filter{}); !slices.Equal(got, []annals.PersistenceID{"Own|1", "Own|2", "Other|1"}) {
		t.Errorf("states %v", got)
	}
	if got := ids(annals.Filter{Type: "Own"}); !slices.Equal(got, []annals.PersistenceID{"Own|1", "Own|2"}) {
		t.Errorf("states of one type %v", got)
	}
	if got := collect(t, s.Query().IDs(ctx, "Own", "")); len(got) != 2 {
		t.Errorf("ids %v", got)
	}
	if done, err := s.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: "Own|1"}); done || !errors.Is(err, annals.ErrConflict) {
		t.Errorf("forget with a state: %v, %v", done, err)
	}
	if _, err := s.States().Delete(ctx, annals.StateWrite{ID: "Own|1", After: 1}); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: "Own|1"}); !done || err != nil {
		t.Errorf("forget: %v, %v", done, err)
	}
	if st, _, err := s.States().Get(ctx, "Own|1"); err != nil || st.Revision != 0 {
		t.Errorf("forgotten in %q: revision %d, %v", table, st.Revision, err)
	}
}
