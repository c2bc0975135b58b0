package dynamostore_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// streamed is a store whose stream is read through a proxy.
type streamed struct {
	*testing.T
	store *dynamostore.Store
	proxy *dynamo.StreamsProxy
	raw   *dynamodbstreams.Client
	stream.Client
	arn string
}

func newStreamed(t *testing.T, settings dynamo.Streams) *streamed {
	t.Helper()
	table := "t" + rand.Text()
	store, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: table}, dynamostore.Options{CreateTables: true, Streams: true})
	if err != nil {
		t.Fatal(err)
	}
	proxy := dynamo.NewStreamsProxy(dynamo.Endpoint(t), settings)
	t.Cleanup(proxy.Close)
	raw := streamsClient(t, proxy.Endpoint)
	s := &streamed{T: t, store: store, proxy: proxy, raw: raw, Client: store.Streams(raw)}
	if s.arn, err = store.StreamOf(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return s
}

// append stores an event after the number after, for each of ids.
func (s *streamed) append(after annals.SeqNr, ids ...annals.PersistenceID) {
	s.Helper()
	for _, id := range ids {
		if _, err := s.store.Journal().Append(s.Context(), annals.Commit{ID: id, After: after, Events: texts(fmt.Sprint(after + 1))}); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *streamed) shards() (all []stream.Shard) {
	s.Helper()
	for after := ""; ; {
		page, next, err := stream.Shards(s.Context(), s, s.arn, after)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, page...)
		if after = next; after == "" {
			return all
		}
	}
}

func (s *streamed) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// streamRecord is a record and the shard that has it.
type streamRecord struct {
	stream.Record
	shard string
}

// read reads the stream, shards that end before those after them, until n different records have been read.
func (s *streamed) read(n int) (all []streamRecord) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	var readers sync.WaitGroup
	begun, ended, seen := map[string]bool{}, map[string]bool{}, map[string]int{}
	var begin func()
	begin = func() {
		shards := s.shards()
		mu.Lock()
		defer mu.Unlock()
		for _, sh := range shards {
			if begun[sh.ID] || !ended[sh.Parent] && slices.ContainsFunc(shards, func(p stream.Shard) bool { return p.ID == sh.Parent }) {
				continue
			}
			begun[sh.ID] = true
			readers.Go(func() {
				r := stream.NewReader(s, s.arn, sh.ID, "")
				for end := false; !end; {
					records, last, err := r.Next(ctx)
					if err != nil {
						if ctx.Err() == nil {
							s.Error(err)
						}
						return
					}
					mu.Lock()
					for _, rec := range records {
						if seen[rec.Sequence]++; seen[rec.Sequence] == 1 {
							all = append(all, streamRecord{rec, sh.ID})
						}
					}
					if len(seen) >= n {
						cancel()
					}
					end, ended[sh.ID] = last, last
					mu.Unlock()
				}
				begin()
			})
		}
	}
	begin()
	readers.Wait()
	if len(all) != n {
		s.Fatalf("got %d records, want %d", len(all), n)
	}
	return all
}

func entities(n int) (ids []annals.PersistenceID) {
	for i := range n {
		ids = append(ids, annals.NewPersistenceID("Thread", fmt.Sprint(i)))
	}
	return ids
}

// All records of shards that were split are read, though answers are throttled, empty or repeated. The stream tells of every event, though
// the events of an entity are not in order. The changes of one item are.
func TestStream(t *testing.T) {
	t.Parallel()
	s := newStreamed(t, dynamo.Streams{Shards: 3, Page: 2, Records: 5, Reorder: true, Throttle: 7, Empty: 5, Repeat: 4})
	if n := len(s.shards()); n != 3 {
		t.Fatalf("%d shards", n)
	}
	const each = 6
	ids := entities(12)
	for n := range annals.SeqNr(each) {
		switch n {
		case 2, 4:
			s.must(s.proxy.Split(t.Context(), 3-int(n)/2)) // two children, then one
		}
		s.append(n, ids...)
		for _, id := range ids {
			if _, err := s.store.States().Put(t.Context(), annals.StateWrite{ID: id, After: n, Payload: annals.Payload{SerializerID: 4}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	shards := s.shards()
	parents := map[string]string{}
	followed := map[string]bool{}
	for _, sh := range shards {
		parents[sh.ID], followed[sh.Parent] = sh.Parent, true
	}
	if delete(followed, ""); len(shards) != 3+6+6 || len(followed) != 3+6 {
		t.Errorf("%d shards, %d of them have shards after them", len(shards), len(followed))
	}
	events := map[annals.PersistenceID][]annals.Event{}
	revisions := map[string]int64{}
	place := map[string]string{} // the shard of the latest record with a partition key
	used := map[string]bool{}
	for _, rec := range s.read(2*each*len(ids) + 1) { // and the settings
		pid, _ := plan.Text(rec.Image, "pid")
		used[rec.shard] = true
		after := rec.shard // or one of those before
		for after != place[pid] && after != "" {
			after = parents[after]
		}
		if after == "" && place[pid] != "" {
			t.Errorf("%s is in shard %s after it was in %s", pid, rec.shard, place[pid])
		}
		place[pid] = rec.shard
		if revision, ok := plan.Number(rec.Image, "rev"); ok {
			if revisions[pid]++; revision != revisions[pid] || rec.Created != (revision == 1) {
				t.Errorf("revision %d of %s comes as number %d, created %v", revision, pid, revisions[pid], rec.Created)
			}
		}
		told, err := s.store.Feed().Events(rec.Image, rec.Created)
		s.must(err)
		for _, e := range told {
			events[e.ID] = append(events[e.ID], e)
		}
	}
	unordered := 0
	for _, id := range ids {
		inOrder := func(a, b annals.Event) int { return cmp.Compare(a.SeqNr, b.SeqNr) }
		if !slices.IsSortedFunc(events[id], inOrder) {
			unordered++
		}
		slices.SortFunc(events[id], inOrder)
		var text []string
		for _, e := range events[id] {
			text = append(text, string(e.Data))
		}
		if want := replay(t.Context(), t, s.store, id, 1, annals.MaxSeqNr); len(want) != each || !slices.Equal(text, want) {
			t.Errorf("%s has the events %q, the stream tells of %q", id, want, text)
		}
	}
	if unordered == 0 || len(used) < 6 {
		t.Errorf("%d of %d entities have events in another order, in %d shards", unordered, len(ids), len(used))
	}
}

// Iterators expire. Records and shards that were removed are missed.
func TestStreamIsTrimmed(t *testing.T) {
	t.Parallel()
	s := newStreamed(t, dynamo.Streams{Reorder: true})
	ids := entities(4)
	s.append(0, ids...)
	all := s.read(5) // with the settings
	shard := s.shards()[0].ID
	iterator := func(kind streamtypes.ShardIteratorType, sequence *string) (*string, error) {
		out, err := s.raw.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{StreamArn: &s.arn, ShardId: &shard, ShardIteratorType: kind, SequenceNumber: sequence})
		if err != nil {
			return nil, err
		}
		return out.ShardIterator, nil
	}
	first, err := iterator(streamtypes.ShardIteratorTypeAtSequenceNumber, &all[0].Sequence)
	s.must(err)
	s.proxy.Expire()
	var expired *streamtypes.ExpiredIteratorException
	if _, err := s.raw.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: first}); !errors.As(err, &expired) {
		t.Errorf("an iterator that has expired: %v", err)
	}
	first, err = iterator(streamtypes.ShardIteratorTypeAtSequenceNumber, &all[0].Sequence)
	s.must(err)
	s.must(s.proxy.Trim(t.Context(), 2))
	var trimmed *streamtypes.TrimmedDataAccessException
	if _, err := s.raw.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: first}); !errors.As(err, &trimmed) {
		t.Errorf("an iterator of a record that was removed: %v", err)
	}
	if _, err := iterator(streamtypes.ShardIteratorTypeAfterSequenceNumber, &all[0].Sequence); !errors.As(err, &trimmed) {
		t.Errorf("an iterator after a record that was removed: %v", err)
	}
	if left := s.read(2); left[0].Sequence != all[3].Sequence {
		t.Errorf("the oldest record is %s, want %s", left[0].Sequence, all[3].Sequence)
	}
	if _, _, err := stream.NewReader(s, s.arn, shard, all[1].Sequence).Next(t.Context()); !errors.Is(err, stream.ErrTrimmed) {
		t.Errorf("a reader of records that were removed: %v", err)
	}
	s.must(s.proxy.Split(t.Context(), 2))
	s.must(s.proxy.Trim(t.Context(), 0))
	for _, sh := range s.shards() {
		if sh.ID == shard || sh.Parent != shard {
			t.Errorf("there is the shard %+v", sh)
		}
	}
	if _, _, err := stream.NewReader(s, s.arn, shard, "").Next(t.Context()); !errors.Is(err, stream.ErrTrimmed) {
		t.Errorf("a reader of a shard that was removed: %v", err)
	}
	s.append(1, ids...)
	s.read(4)
}

// The store repeats requests that were throttled, until the context ends.
func TestStreamIsThrottled(t *testing.T) {
	t.Parallel()
	s := newStreamed(t, dynamo.Streams{Throttle: 1})
	s.append(0, entities(1)...)
	shard := s.shards()[0].ID
	var limit *streamtypes.LimitExceededException
	if _, _, err := stream.NewReader(s.raw, s.arn, shard, "").Next(t.Context()); !errors.As(err, &limit) {
		t.Errorf("without the store: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := stream.NewReader(s, s.arn, shard, "").Next(ctx); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("until the context ends: %v", err)
	}
	s.proxy.Set(dynamo.Streams{Throttle: 2})
	s.read(2)
}

// throttling refuses all requests for records until a time.
type throttling struct {
	stream.Client
	until    time.Time
	requests int
}

func (*throttling) GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String("i")}, nil
}

func (c *throttling) GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if c.requests++; time.Now().Before(c.until) {
		return nil, &streamtypes.LimitExceededException{}
	}
	return &dynamodbstreams.GetRecordsOutput{}, nil
}

// A shard that is throttled is asked about twice a second, and read within a second when it can be.
func TestStreamBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const long = 10 * time.Minute
		c := &throttling{until: time.Now().Add(long)}
		_, end, err := stream.NewReader(dynamostore.NewStreams(c), "arn", "shard", "").Next(t.Context())
		if late := time.Since(c.until); err != nil || !end || late > time.Second {
			t.Errorf("read %v after the last throttle, end %v, %v", late, end, err)
		}
		if perSecond := float64(c.requests) / long.Seconds(); perSecond < 1.5 || perSecond > 2.5 {
			t.Errorf("%.1f requests a second", perSecond)
		}
	})
}

// Only the store repeats requests, not the SDK.
func TestStreamRetries(t *testing.T) {
	t.Parallel()
	s := newStreamed(t, dynamo.Streams{})
	faults := dynamo.NewFaultProxy(s.proxy.Endpoint)
	defer faults.Close()
	faults.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == "GetRecords" {
			return dynamo.Fault{Status: 500}
		}
		return dynamo.Fault{}
	})
	c := dynamodbstreams.New(dynamodbstreams.Options{BaseEndpoint: &faults.Endpoint, Region: "us-east-1", Retryer: retryOnce{}, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	store := openCommit(t, client(t), dynamostore.Options{Attempts: 3})
	shard := s.shards()[0].ID
	if _, _, err := stream.NewReader(store.Streams(c), s.arn, shard, "").Next(t.Context()); !errors.Is(err, annals.ErrUnavailable) || faults.Counts()["GetRecords"] != 3 {
		t.Errorf("after %d requests: %v", faults.Counts()["GetRecords"], err)
	}
}

func TestStreamOf(t *testing.T) {
	t.Parallel()
	c := client(t)
	store := openCommit(t, c, dynamostore.Options{})
	table := "t" + rand.Text()
	change := func(specification *types.StreamSpecification) {
		t.Helper()
		if _, err := c.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: &table, StreamSpecification: specification}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string) {
		t.Helper()
		_, err := store.StreamOf(t.Context(), table)
		if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), table) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	refused("does not exist")
	if _, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: table}, dynamostore.Options{CreateTables: true}); err != nil {
		t.Fatal(err)
	}
	refused("has no stream: aws dynamodb update-table")
	change(&types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly})
	refused("KEYS_ONLY")
	for _, view := range []types.StreamViewType{types.StreamViewTypeNewImage, types.StreamViewTypeNewAndOldImages} {
		change(&types.StreamSpecification{StreamEnabled: aws.Bool(false)})
		refused("has no stream")
		change(&types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: view})
		if arn, err := store.StreamOf(t.Context(), table); err != nil || !strings.Contains(arn, table) {
			t.Errorf("%s: got %q, %v", view, arn, err)
		}
	}
}
