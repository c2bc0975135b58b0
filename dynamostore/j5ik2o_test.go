package dynamostore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// j5ik2oBehindProxy opens a store on new tables of the plugin behind a fault proxy.
func j5ik2oBehindProxy(t *testing.T, j j5ik2o.Journal, o dynamostore.Options) (*dynamostore.Store, *dynamo.FaultProxy) {
	t.Helper()
	c, p := clientBehindProxy(t)
	return openJ5ik2o(t, c, j, o), p
}

// openJ5ik2o opens a store on new tables of the plugin.
func openJ5ik2o(t *testing.T, c dynamostore.Client, j j5ik2o.Journal, o dynamostore.Options) *dynamostore.Store {
	t.Helper()
	prefix := "s" + rand.Text()
	j.Table, o.CreateTables = prefix+"j", true
	s, err := dynamostore.Open(t.Context(), c, j5ik2o.Layout{Journal: j, Snapshot: j5ik2o.Snapshot{Table: prefix + "s"}, State: j5ik2o.State{Table: prefix + "d"}}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestJ5ik2oLostAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := j5ik2oBehindProxy(t, j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: 4}, dynamostore.Options{})
	p.SetRule(badWeather(dynamo.Fault{Throttle: true}))
	var writers sync.WaitGroup
	for w := range 3 {
		id := annals.NewPersistenceID("Thing", fmt.Sprint(w))
		writers.Go(func() {
			last := annals.SeqNr(0)
			for i := range annals.SeqNr(40) {
				batch := texts(slices.Repeat([]string{fmt.Sprint(i)}, 1+int(i%3))...)
				r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: last, Events: batch})
				if err != nil || r.SeqNr != last+annals.SeqNr(len(batch)) {
					t.Errorf("append after %d: %+v, %v", last, r, err)
					return
				}
				last = r.SeqNr
				if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: i, Payload: text(fmt.Sprint(i)).Payload}); err != nil {
					t.Errorf("put after %d: %v", i, err)
					return
				}
			}
			if got := replay(ctx, t, s, id, 1, annals.MaxSeqNr); annals.SeqNr(len(got)) != last {
				t.Errorf("%d events, want %d", len(got), last)
			}
		})
	}
	writers.Wait()
}

// Reads through the index also return rows that the index does not have yet.
func TestJ5ik2oStaleIndex(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := j5ik2oBehindProxy(t, j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.BySeqNr, ShardCount: 4}, dynamostore.Options{})
	id := annals.NewPersistenceID("Thing", "1")
	for n := range annals.SeqNr(30) {
		if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: n, Events: texts(fmt.Sprint(n + 1))}); err != nil {
			t.Fatal(err)
		}
	}
	for _, hidden := range []int{1, 7, 30} {
		p.SetRule(func(dynamo.Request) dynamo.Fault { return dynamo.Fault{HideNewest: hidden} })
		if last, err := s.Journal().LastSeqNr(ctx, id); last != 30 || err != nil {
			t.Errorf("%d rows hidden: last number %d, %v", hidden, last, err)
		}
		if got := replay(ctx, t, s, id, 1, annals.MaxSeqNr); len(got) != 30 || got[29] != "30" {
			t.Errorf("%d rows hidden: replayed %q", hidden, got)
		}
	}
}

// The query of each shard waits until all have been sent. Before them, row 1 is read, which shows that there are rows.
func TestJ5ik2oReplayAsksAllShardsAtOnce(t *testing.T) {
	t.Parallel()
	const shards = 16
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, h := &recorder{}, &held{Client: client(t)}
	s := openJ5ik2o(t, h, j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: shards}, dynamostore.Options{Observer: seen})
	id := annals.NewPersistenceID("Thing", "1")
	fill(ctx, t, s, id, 2000, 100, 600)
	var sent atomic.Int64
	all := make(chan struct{})
	h.query = func(ctx context.Context, _ *dynamodb.QueryInput) {
		if sent.Add(1) == shards {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			t.Errorf("%d queries at once, want %d", sent.Load(), shards)
		}
	}
	if n := len(replay(ctx, t, s, id, 1, annals.MaxSeqNr)); n != 2000 || seen.last().Requests != 1+shards {
		t.Errorf("%d events, %d requests", n, seen.last().Requests)
	}
	if last, err := s.Journal().LastSeqNr(ctx, id); last != 2000 || err != nil {
		t.Error(last, err)
	}
	if r := seen.last(); r.Requests != 18 || r.ReadUnits > 18 {
		t.Errorf("last number: %d requests, %v read units; want one for row 1, one for each shard and one for the events after them, 18 and 18", r.Requests, r.ReadUnits)
	}
}

// With many shards few rows of each are read ahead. A megabyte of each would be 400 MB here.
func TestJ5ik2oReadAheadIsBounded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const shards, rows, size = 400, 30, 50_000
	s, p := j5ik2oBehindProxy(t, j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: shards}, dynamostore.Options{})
	plugin := annals.NewWriteID()       // one writer whose events have different times leaves numbers unused
	for i := range annals.SeqNr(rows) { // all in one shard
		r, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1-1", After: shards*(i+1) - 1, WriteID: plugin, Events: texts(strings.Repeat("x", size))})
		if err != nil {
			t.Fatal(err)
		}
		for time.Since(r.Time) < time.Millisecond { // times are in milliseconds
			runtime.Gosched()
		}
	}
	var mu sync.Mutex
	var first, later []int
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		mu.Lock()
		defer mu.Unlock()
		var q struct {
			Limit             int
			ExclusiveStartKey map[string]any
		}
		switch err := json.Unmarshal(r.Body, &q); {
		case err != nil:
			t.Error(err)
		case r.Operation != "Query" || r.Indexed():
		case q.ExclusiveStartKey == nil:
			first = append(first, q.Limit)
		default:
			later = append(later, q.Limit)
		}
		return dynamo.Fault{}
	})
	if n := len(replay(ctx, t, s, "Thing|1-1", 1, annals.MaxSeqNr)); n != rows {
		t.Errorf("%d events", n)
	}
	if len(first) != shards || slices.Min(first) != 20 || slices.Max(first) != 20 {
		t.Errorf("%d first pages of up to %d rows; want %d of 20, 32 MB in all if rows have 4 KB", len(first), slices.Max(first), shards)
	}
	if len(later) < rows-20 || slices.Max(later) != 1 || slices.Min(later) != 1 {
		t.Errorf("later pages of %v rows; want 1 each, as rows have %d bytes", later, size)
	}
}

func TestJ5ik2oCosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	seen := &recorder{}
	s, _ := j5ik2oBehindProxy(t, j5ik2o.Journal{}, dynamostore.Options{Observer: seen})
	id := annals.NewPersistenceID("Thing", "1-1")
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts(strings.Repeat("x", 700))}); err != nil {
		t.Fatal(err)
	}
	if r := seen.last(); r.Requests != 2 || r.WriteUnits > 2 || r.ReadUnits > 1 {
		t.Errorf("append: %d requests, %v write and %v read units; want a look whether the id is new, and, with the index, 2", r.Requests, r.WriteUnits, r.ReadUnits)
	}
	if err := s.Journal().DeleteTo(ctx, id, 1); err != nil {
		t.Fatal(err)
	}
	if r := seen.last(); r.Requests != 3 || r.WriteUnits > 2 {
		t.Errorf("delete: %d requests, %v write units; want the last number, the rows and, with the index, 2", r.Requests, r.WriteUnits)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: text(strings.Repeat("x", 700)).Payload}); err != nil {
		t.Fatal(err)
	}
	if r := seen.last(); r.Requests != 1 || r.WriteUnits > 2 {
		t.Errorf("state: %d requests, %v write units; want 1 and, as a transaction, 2", r.Requests, r.WriteUnits)
	}
	fill(ctx, t, s, id, 10, 10, 300)
	if r := seen.last(); r.Requests != 1 || r.WriteUnits > 30 {
		t.Errorf("append of ten: %d requests, %v write units; want 1 and, for each as a transaction with the index, 3", r.Requests, r.WriteUnits)
	}
	if n := len(replay(ctx, t, s, id, 1, annals.MaxSeqNr)); n != 10 || seen.last().Requests != 1 {
		t.Errorf("replay: %d events, %d requests", n, seen.last().Requests)
	}
}

// The JVM's replay filter drops events of a writer that appears again after another, so each commit has a new writer.
func TestJ5ik2oWritersAreNew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := j5ik2oBehindProxy(t, j5ik2o.Journal{}, dynamostore.Options{})
	id := annals.NewPersistenceID("Thing", "1-1")
	fill(ctx, t, s, id, 12, 3, 10)
	writers := map[annals.WriteID]annals.SeqNr{}
	var before annals.WriteID
	for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		if n, known := writers[e.WriteID]; e.WriteID == (annals.WriteID{}) || known && e.WriteID != before {
			t.Errorf("the writer of event %d wrote event %d", e.SeqNr, n)
		}
		writers[e.WriteID], before = e.SeqNr, e.WriteID
	}
	if len(writers) != 4 {
		t.Errorf("%d writers of 4 commits", len(writers))
	}
}

// With the plugin's default keys these ids share rows. The plugin would overwrite one with the other.
func TestJ5ik2oCollision(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := j5ik2oBehindProxy(t, j5ik2o.Journal{}, dynamostore.Options{})
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: "Counter|4", Events: texts("a")}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Journal().Append(ctx, annals.Commit{ID: "Counter|10", Events: texts("b", "c")})
	if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), `"Counter|4"`) || !strings.Contains(err.Error(), `"Counter|10"`) {
		t.Error(err)
	}
	if got := replay(ctx, t, s, "Counter|10", 1, annals.MaxSeqNr); got != nil {
		t.Errorf("%q", got)
	}
}

// Open checks that rows fit the settings.
func TestJ5ik2oOpenChecksRows(t *testing.T) {
	t.Parallel()
	ctx, c, prefix := t.Context(), client(t), "s"+rand.Text()
	layout := func(j j5ik2o.Journal) j5ik2o.Layout {
		j.Table = prefix + "j"
		return j5ik2o.Layout{Journal: j, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}}
	}
	s, err := dynamostore.Open(ctx, c, layout(j5ik2o.Journal{}), dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	fill(ctx, t, s, "Thing|1-1", 5, 1, 10)
	for name, j := range map[string]j5ik2o.Journal{"shard count": {ShardCount: 63}, "resolver": {PartitionKey: j5ik2o.SequenceNumberBased},
		"sort key": {SortKey: j5ik2o.BySeqNr}, "separator": {Separator: "|"}} {
		if _, err := dynamostore.Open(ctx, c, layout(j), dynamostore.Options{}); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "Thing|1-1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, j := range map[string]j5ik2o.Journal{"column": {Columns: j5ik2o.JournalColumns{SortKey: "other"}}, "index": {Index: "other"}} {
		if _, err := dynamostore.Open(ctx, c, layout(j), dynamostore.Options{}); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "other") {
			t.Errorf("%s: %v", name, err)
		}
	}
	mixed := layout(j5ik2o.Journal{ShardCount: 63})
	mixed.ByIndex = true
	s, err = dynamostore.Open(ctx, c, mixed, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1-1", After: 5, Events: texts("six")}); err != nil {
		t.Error(err)
	}
	if n := len(replay(ctx, t, s, "Thing|1-1", 1, annals.MaxSeqNr)); n != 6 {
		t.Errorf("%d events under two settings", n)
	}
}
