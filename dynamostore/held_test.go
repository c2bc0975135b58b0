package dynamostore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// held is a client whose requests wait for what a test does before. Nil functions do nothing.
type held struct {
	dynamostore.Client
	put    func(in *dynamodb.PutItemInput)
	query  func(ctx context.Context, in *dynamodb.QueryInput) // before it is sent
	answer func(in *dynamodb.QueryInput)                      // when it was answered
}

func (h *held) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if h.put != nil {
		h.put(in)
	}
	return h.Client.PutItem(ctx, in, o...)
}

func (h *held) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if h.query != nil {
		h.query(ctx, in)
	}
	out, err := h.Client.Query(ctx, in, o...)
	if h.answer != nil {
		h.answer(in)
	}
	return out, err
}

// openHeld opens two stores on new tables: one whose requests can be held, and that of another process.
func openHeld(t *testing.T, layout dynamostore.Layout) (*held, annals.Store, annals.Store) {
	t.Helper()
	h := &held{Client: client(t)}
	var stores [2]*dynamostore.Store
	for i, c := range []dynamostore.Client{h, h.Client} {
		s, err := dynamostore.Open(t.Context(), c, layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	return h, stores[0], stores[1]
}

// A snapshot in parts is saved twice under one number, and the events are deleted. Then the request that stored the first save is executed
// once more, as a duplicate that was delayed in the network. It must not hide the second save: the parts of the first are deleted.
func TestLateDuplicateOfALargeSnapshot(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h, s, _ := openHeld(t, commit.Layout{Table: "t" + rand.Text()})
	id := annals.NewPersistenceID("Thing", "1")
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("a", "b")}); err != nil {
		t.Fatal(err)
	}
	var first *dynamodb.PutItemInput // that stores the item which names the parts
	h.put = func(in *dynamodb.PutItemInput) {
		if in.Item["parts"] != nil && first == nil {
			sent := *in
			first = &sent
		}
	}
	var large []byte
	for range 2 {
		large = make([]byte, plan.MaxItemBytes+1000)
		_, _ = rand.Read(large) // so that they cannot be compressed
		if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 2, Payload: annals.Payload{SerializerID: 4, Data: large}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Journal().DeleteTo(ctx, id, 2); err != nil {
		t.Fatal(err)
	}
	if first == nil {
		t.Fatal("no snapshot was stored in parts")
	}
	_, duplicate := h.Client.PutItem(ctx, first) // its condition may fail
	newest, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
	if err != nil || !ok || !bytes.Equal(newest.Data, large) {
		t.Errorf("newest snapshot after the duplicate (%v): %v of %d bytes, %v; want the one saved last", duplicate, ok, len(newest.Data), err)
	}
	var recovered []byte
	last, err := ability.Recover(ctx, s, id, func(s annals.Snapshot) error { recovered = s.Data; return nil }, func(annals.Event) error { return nil })
	if err != nil || last != 2 || !bytes.Equal(recovered, large) {
		t.Errorf("recovered %d bytes up to %d, %v; want the state saved last, up to 2", len(recovered), last, err)
	}
}

// One of 600 shards is read when all others have been read, and much was written since: its first event is far above theirs. The events
// between are read, too.
func TestShardReadLate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const shards, few, all = 600, 10, 1210
	prefix := "s" + rand.Text()
	h, s, other := openHeld(t, j5ik2o.Layout{Journal: j5ik2o.Journal{Table: prefix, PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: shards},
		Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}})
	id := annals.NewPersistenceID("Thing", "1")
	write := func(from, to int) {
		for after := from; after < to; after += 100 {
			if _, err := other.Journal().Append(ctx, annals.Commit{ID: id, After: annals.SeqNr(after), Events: texts(make([]string, min(100, to-after))...)}); err != nil {
				t.Error(err)
				return
			}
		}
	}
	write(0, few)
	var others sync.WaitGroup // the first pages of the other shards
	others.Add(shards - 1)
	var begun sync.Map
	late := func(in *dynamodb.QueryInput) (shard string, is bool) {
		shard = plan.KeyText(in.ExpressionAttributeValues[":hash"])
		return shard, shard == string(id)+"-599"
	}
	h.query = func(_ context.Context, in *dynamodb.QueryInput) {
		if shard, is := late(in); is {
			if _, again := begun.LoadOrStore(shard, true); !again {
				others.Wait()
				write(few, all)
			}
		}
	}
	h.answer = func(in *dynamodb.QueryInput) {
		shard, is := late(in)
		if _, again := begun.LoadOrStore(shard, true); !is && !again {
			others.Done()
		}
	}
	got, err := numbers(ctx, s, id, 1, annals.MaxSeqNr)
	for i, n := range got {
		if n != annals.SeqNr(i+1) {
			t.Fatalf("event %d at place %d", n, i+1)
		}
	}
	if err != nil || len(got) < 1199 {
		t.Errorf("replayed up to %d, %v; the last shard showed 599 and 1199", len(got), err)
	}
}

// A replay up to a number has one page of each shard when everything up to a number beyond its bound is removed. It is complete or
// ErrTruncated, though no event after the bound is read that could show the gap.
func TestBoundedReplayBesideADeleteBeyond(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	prefix := "s" + rand.Text()
	h, s, other := openHeld(t, j5ik2o.Layout{Journal: j5ik2o.Journal{Table: prefix, PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: 2, HardDelete: true},
		Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}})
	id := annals.NewPersistenceID("Thing", "1")
	for after := range annals.SeqNr(12) { // four of a shard fill a page
		if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: texts(string(make([]byte, 300_000)))}); err != nil {
			t.Fatal(err)
		}
	}
	deleted := make(chan struct{})
	h.query = func(_ context.Context, in *dynamodb.QueryInput) {
		if in.ExclusiveStartKey != nil {
			<-deleted
		}
	}
	var last annals.SeqNr
	var failed error
	for e, err := range s.Journal().Replay(ctx, id, 1, 10) {
		if failed = err; err != nil {
			break
		}
		if last = e.SeqNr; last == 1 {
			if err := other.Journal().DeleteTo(ctx, id, 11); err != nil {
				t.Error(err)
			}
			close(deleted)
		}
	}
	if last >= 10 || !errors.Is(failed, annals.ErrTruncated) {
		t.Errorf("replayed up to %d, %v; want it truncated", last, failed)
	}
}
