package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// dynamodbFigures compare dynamostore with direct use of the SDK, and its layouts with the service's limits per partition key.
func dynamodbFigures() []Figure {
	layout := commit.Layout{Table: "figures"}
	small := events{5000, 1, figurePayload}
	large := events{10_000, 10, annals.Payload{SerializerID: figurePayload.SerializerID, Manifest: figurePayload.Manifest, Data: bytes.Repeat([]byte("x"), 2048)}}
	figures := []Figure{
		{Name: "dynamodb-append-cpu", Goal: AtMost(1.10), Run: appendFigure(layout, false, processorTime, putByHand),
			About: "processor time of an append, divided by that of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-append-allocs", Goal: AtMost(1.10), Run: appendFigure(layout, false, allocations, putByHand),
			About: "allocations of an append, divided by those of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-replay", Goal: AtMost(1.15), Run: readFigure{layout: layout, events: small, turns: 8, spent: clock, byHand: queryByHand}.run,
			About: "time of a replay of 5,000 events, divided by that of a bare paginated Query that decodes the same items"},
		{Name: "dynamodb-lean-append-cpu", Goal: AtMost(0.6), Run: appendFigure(layout, true, processorTime, putByHand),
			About: "processor time of an append with Options.Lean, divided by that of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-lean-append-allocs", Goal: AtMost(0.35), Run: appendFigure(layout, true, allocations, putByHand),
			About: "allocations of an append with Options.Lean, divided by those of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-lean-replay", Goal: AtMost(0.75), Run: readFigure{layout: layout, lean: true, events: small, turns: 8, spent: processorTime, byHand: queryByHand}.run,
			About: "processor time of a replay of 5,000 events with Options.Lean, divided by that of a bare paginated Query that decodes the same items with the SDK"},
		{Name: "dynamodb-replay-ranges", Goal: AtLeast(1.5), Run: inverse(readFigure{layout: layout, slow: dynamo.Fault{Delay: requestTime}, events: large, turns: 4, spent: clock, byHand: queryByHand}.run),
			About: "time of a bare paginated Query over 20 MB of events, divided by that of their replay, with 5 ms a request"},
		{Name: "dynamodb-throttles-32", Goal: AtMost(0.2), Run: shardsFigure(32, false, func(_, throttles float64) float64 { return throttles }),
			About: "throttled requests per stored event, 32 shards at their limit of 50 write units a second"},
		{Name: "dynamodb-shards-16-index", Goal: AtLeast(0.9), Run: shardsFigure(16, true, func(share, _ float64) float64 { return 16 * share }),
			About: "events stored a second over 16 shards with the plugin's index, divided by the limit of 50 write units a second of the index's one key"},
	}
	for _, shards := range []int{1, 4, 16, 32} {
		figures = append(figures, Figure{Name: fmt.Sprintf("dynamodb-shards-%d", shards), Goal: AtLeast(0.97), Run: shardsFigure(shards, false, func(share, _ float64) float64 { return share }),
			About: fmt.Sprintf("events stored a second over %d shards without an index, divided by %[1]d times the limit of 50 write units a second", shards)})
	}
	for shards, goal := range map[int]float64{4: 3.5, 16: 12} {
		figures = append(figures, Figure{Name: fmt.Sprintf("dynamodb-replay-%d", shards), Goal: AtLeast(goal), Run: spreadFigure(shards),
			About: fmt.Sprintf("time of a replay from one shard, divided by that from %d, with 5 ms a request and 600 read units a second and shard", shards)})
	}
	return figures
}

// dynamoBench is a client of a new server, with a proxy in front of that if requested.
type dynamoBench struct {
	proxy  *dynamo.FaultProxy
	client *dynamodb.Client
}

// onDynamo runs measure on a new server, with a store of a layout.
func onDynamo(proxied bool, layout dynamostore.Layout, o dynamostore.Options, measure func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error)) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		server, err := dynamo.Start()
		if err != nil {
			return 0, err
		}
		defer server.Stop()
		b, endpoint := &dynamoBench{}, server.Endpoint
		if proxied {
			b.proxy = dynamo.NewFaultProxy(endpoint)
			defer b.proxy.Close()
			endpoint = b.proxy.Endpoint
		}
		b.client, err = dynamostore.NewClient(ctx, dynamostore.ClientOptions{Endpoint: endpoint, Region: "us-east-1", MaxConnections: 128,
			Credentials: credentials.NewStaticCredentialsProvider("figures", "figures", "")})
		if err != nil {
			return 0, err
		}
		o.CreateTables, o.MaxInFlight = true, 128
		store, err := dynamostore.Open(ctx, b.client, layout, o)
		if err != nil {
			return 0, err
		}
		defer func() { _ = store.Close() }()
		return measure(ctx, b, store)
	}
}

func allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}

var figurePayload = annals.Payload{SerializerID: 31, Manifest: "figure.taken", Data: []byte(`{"text":"` + strings.Repeat("x", 300) + `"}`)}

// putByHand stores event n of id as the layout commit does.
func putByHand(ctx context.Context, c *dynamodb.Client, id string, n int) error {
	w := annals.NewWriteID()
	_, err := c.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           aws.String("figures"),
		ConditionExpression:                 aws.String("attribute_not_exists(pid)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		Item: map[string]types.AttributeValue{
			"pid": text(id),
			"seq": number(n),
			"v":   number(1),
			"w":   &types.AttributeValueMemberB{Value: w[:]},
			"at":  number(int(time.Now().UnixMicro())),
			"n":   number(1),
			"ev": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
				"s":    number(31),
				"type": text(figurePayload.Manifest),
				"data": text(string(figurePayload.Data)),
			}}}},
		},
	})
	return err
}

// events are many equal events, in commits of batch.
type events struct {
	count, batch int
	payload      annals.Payload
}

// readFigure alternates between a replay of events and a read by hand, which yields the data of the same events. The value is what the replay
// spends, divided by what the read by hand spends.
type readFigure struct {
	layout dynamostore.Layout
	lean   bool         // dynamostore.Options.Lean
	slow   dynamo.Fault // what happens to each read; zero: nothing
	events
	turns  int
	spent  func() float64
	byHand func(ctx context.Context, c *dynamodb.Client, id string) iter.Seq2[[]byte, error]
}

// requestTime is how much longer a request takes in figures of reads that wait for requests.
const requestTime = 5 * time.Millisecond

func (f readFigure) run(ctx context.Context) (float64, error) {
	return onDynamo(f.slow.Delay > 0, f.layout, dynamostore.Options{Lean: f.lean}, func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
		const id = "Figure|replayed"
		if err := appendEqual(ctx, store, id, f.count, f.batch, f.payload); err != nil {
			return 0, err
		}
		if b.proxy != nil {
			b.proxy.SetRule(func(dynamo.Request) dynamo.Fault { return f.slow })
		}
		compare := ratio
		if f.slow.Remember {
			compare = shortest
		}
		return compare(f.turns, f.spent, f.whole(func() (int, int, error) { return replayed(ctx, store, id) }), f.whole(func() (n, sum int, err error) {
			for data, err := range f.byHand(ctx, b.client, id) {
				if err != nil {
					return n, sum, err
				}
				n, sum = n+1, sum+len(data)
			}
			return n, sum, nil
		}))
	})(ctx)
}

// whole is a side of a ratio that reads all events.
func (all events) whole(read func() (n, sum int, err error)) func() error {
	return func() error {
		n, sum, err := read()
		if err == nil && (n != all.count || sum != n*len(all.payload.Data)) {
			err = fmt.Errorf("read %d events of %d bytes", n, sum)
		}
		return err
	}
}

// queryByHand reads and decodes every event of id with the SDK.
func queryByHand(ctx context.Context, c *dynamodb.Client, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := &dynamodb.QueryInput{TableName: aws.String("figures"), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pid = :id"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":id": text(id)}}
		for pages := dynamodb.NewQueryPaginator(c, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range page.Items {
				for _, e := range it["ev"].(*types.AttributeValueMemberL).Value {
					if !yield([]byte(e.(*types.AttributeValueMemberM).Value["data"].(*types.AttributeValueMemberS).Value), nil) {
						return
					}
				}
			}
		}
	}
}

// shardsFigure writes the events of one entity as fast as the model of its shards accepts them. The value is of the share of the possible rate
// and of the throttled requests per event, after the burst capacity of the start has been used.
func shardsFigure(shards int, indexed bool, value func(share, throttles float64) float64) func(ctx context.Context) (float64, error) {
	layout := j5ik2o.Layout{ShardCount: shards, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}, NoIndex: !indexed}
	return onDynamo(true, layout, dynamostore.Options{}, func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
		share, throttles, err := b.shards(ctx, store, shards)
		return value(share, throttles), err
	})
}

func (b *dynamoBench) shards(ctx context.Context, store annals.Store, shards int) (share, throttles float64, err error) {
	const limit, warm, taken = 50, 6 * time.Second, 8 * time.Second
	b.proxy.SetCapacity(0, limit)
	b.proxy.Swallow("PutItem") // so that the shards limit the rate, not the test server
	var next, stored atomic.Int64
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, 4*shards)
	var writers sync.WaitGroup
	for w := range errs {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, err := store.Journal().Append(ctx, annals.Commit{ID: "Figure|spread", After: annals.SeqNr(next.Add(1) - 1), Events: []annals.NewEvent{{Payload: figurePayload}}})
				if err != nil {
					if ctx.Err() == nil {
						errs[w] = err
					}
					return
				}
				stored.Add(1)
			}
		})
	}
	_ = backoff.Sleep(ctx, warm)
	before, refused, begun := stored.Load(), b.proxy.Throttles(), time.Now()
	_ = backoff.Sleep(ctx, taken)
	events, refused, seconds := stored.Load()-before, b.proxy.Throttles()-refused, time.Since(begun).Seconds()
	stop()
	writers.Wait()
	return float64(events) / seconds / float64(shards*limit), float64(refused) / float64(max(events, 1)), errors.Join(errs...)
}

// spreadFigure replays the same events from one shard and from many.
func spreadFigure(shards int) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		one, err := spread(1)(ctx)
		if err != nil {
			return 0, err
		}
		many, err := spread(shards)(ctx)
		return one / many, err
	}
}

// spread returns how many seconds a replay from so many shards takes.
func spread(shards int) func(ctx context.Context) (float64, error) {
	layout := j5ik2o.Layout{ShardCount: shards, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}}
	return onDynamo(true, layout, dynamostore.Options{}, func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
		const id, events, bytes = "Figure|spread", 800, 12_000
		data := make([]byte, bytes)
		_, _ = rand.Read(data)
		if err := appendEqual(ctx, store, id, events, 20, annals.Payload{SerializerID: 4, Data: data}); err != nil {
			return 0, err
		}
		b.proxy.SetCapacity(600, 0)
		b.proxy.SetRule(func(dynamo.Request) dynamo.Fault { return dynamo.Fault{Delay: requestTime} })
		begun := clock()
		n, _, err := replayed(ctx, store, id)
		if n != events || err != nil {
			return 0, fmt.Errorf("replayed %d events of %d, %w", n, events, err)
		}
		return clock() - begun, nil
	})
}
