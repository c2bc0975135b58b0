package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	byHand := func(lean bool, spent func() float64) func(context.Context) (float64, error) {
		return appendFigure(commit.Layout{Table: "figures"}, lean, spent, putByHand)
	}
	figures := []Figure{
		{Name: "dynamodb-append-cpu", Goal: AtMost(1.10), Run: byHand(false, processorTime),
			About: "processor time of an append, divided by that of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-append-allocs", Goal: AtMost(1.10), Run: byHand(false, allocations),
			About: "allocations of an append, divided by those of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-replay", Goal: AtMost(1.15), Run: replays(false, 0, smallEvents, 8, clock),
			About: "time of a replay of 5,000 events, divided by that of a bare paginated Query that decodes the same items"},
		{Name: "dynamodb-lean-append-cpu", Goal: AtMost(0.6), Run: byHand(true, processorTime),
			About: "processor time of an append with Options.Lean, divided by that of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-lean-append-allocs", Goal: AtMost(0.35), Run: byHand(true, allocations),
			About: "allocations of an append with Options.Lean, divided by those of the same conditional PutItem with the SDK by hand"},
		{Name: "dynamodb-lean-replay", Goal: AtMost(0.75), Run: replays(true, 0, smallEvents, 8, processorTime),
			About: "processor time of a replay of 5,000 events with Options.Lean, divided by that of a bare paginated Query that decodes the same items with the SDK"},
		{Name: "dynamodb-replay-ranges", Goal: AtLeast(1.5), Run: inverse(replays(false, 5*time.Millisecond, largeEvents, 4, clock)),
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
		figures = append(figures, Figure{Name: fmt.Sprintf("dynamodb-replay-%d", shards), Goal: AtLeast(goal), Run: func(ctx context.Context) (float64, error) { return spreadFigure(ctx, shards) },
			About: fmt.Sprintf("time of a replay from one shard, divided by that from %d, with 5 ms a request and 600 read units a second and shard", shards)})
	}
	return figures
}

// dynamoBench is a new server, with a proxy in front of it if requested.
type dynamoBench struct {
	server *dynamo.Server
	proxy  *dynamo.FaultProxy
	client *dynamodb.Client
}

func openDynamo(ctx context.Context, proxied bool) (*dynamoBench, error) {
	server, err := dynamo.Start()
	if err != nil {
		return nil, err
	}
	b := &dynamoBench{server: server}
	endpoint := server.Endpoint
	if proxied {
		b.proxy = dynamo.NewFaultProxy(endpoint)
		endpoint = b.proxy.Endpoint
	}
	b.client, err = dynamostore.NewClient(ctx, clientOptions(endpoint, 128))
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// onDynamo runs measure on a new server, with a store of a layout.
func onDynamo(proxied bool, layout dynamostore.Layout, o dynamostore.Options, measure func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error)) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		b, err := openDynamo(ctx, proxied)
		if err != nil {
			return 0, err
		}
		defer b.close()
		o.CreateTables = true
		store, err := dynamostore.Open(ctx, b.client, layout, o)
		if err != nil {
			return 0, err
		}
		defer func() { _ = store.Close() }()
		return measure(ctx, b, store)
	}
}

func clientOptions(endpoint string, connections int) dynamostore.ClientOptions {
	return dynamostore.ClientOptions{Endpoint: endpoint, Region: "us-east-1", MaxConnections: connections,
		Credentials: credentials.NewStaticCredentialsProvider("figures", "figures", "")}
}

func (b *dynamoBench) close() {
	if b.proxy != nil {
		b.proxy.Close()
	}
	b.server.Stop()
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

var (
	smallEvents = events{5000, 1, figurePayload}
	largeEvents = events{10_000, 10, annals.Payload{SerializerID: figurePayload.SerializerID, Manifest: figurePayload.Manifest, Data: bytes.Repeat([]byte("x"), 2048)}}
)

// replays alternates between a replay of all events and a direct query over the same items, whose requests take longer by delay. It returns
// what the replay spends, divided by what the query spends.
func replays(lean bool, delay time.Duration, all events, turns int, spent func() float64) func(ctx context.Context) (float64, error) {
	return onDynamo(delay > 0, commit.Layout{Table: "figures"}, dynamostore.Options{Lean: lean}, func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
		const id = "Figure|replayed"
		if delay > 0 {
			b.proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
				if r.Operation != "Query" {
					return dynamo.Fault{}
				}
				return dynamo.Fault{Delay: delay}
			})
		}
		if err := appendEqual(ctx, store, id, all.count, all.batch, all.payload); err != nil {
			return 0, err
		}
		return ratio(turns, spent, all.whole(func() (int, int, error) { return replayed(ctx, store, id) }),
			all.whole(func() (int, int, error) { return b.queryByHand(ctx, "figures", id) }))
	})
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
func (b *dynamoBench) queryByHand(ctx context.Context, table, id string) (n, sum int, err error) {
	in := &dynamodb.QueryInput{TableName: aws.String(table), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pid = :id"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":id": text(id)}}
	pages := dynamodb.NewQueryPaginator(b.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, 0, err
		}
		for _, it := range page.Items {
			for _, e := range it["ev"].(*types.AttributeValueMemberL).Value {
				data := []byte(e.(*types.AttributeValueMemberM).Value["data"].(*types.AttributeValueMemberS).Value)
				n, sum = n+1, sum+len(data)
			}
		}
	}
	return n, sum, nil
}

// shardsFigure writes the events of one entity as fast as the model of its shards accepts them. The value is of the share of the possible rate
// and of the throttled requests per event, after the burst capacity of the start has been used.
func shardsFigure(shards int, indexed bool, value func(share, throttles float64) float64) func(ctx context.Context) (float64, error) {
	layout := j5ik2o.Layout{ShardCount: shards, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}, NoIndex: !indexed}
	return onDynamo(true, layout, dynamostore.Options{MaxInFlight: 128}, func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
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
func spreadFigure(ctx context.Context, shards int) (float64, error) {
	b, err := openDynamo(ctx, true)
	if err != nil {
		return 0, err
	}
	defer b.close()
	const events, bytes = 800, 12_000
	data := make([]byte, bytes)
	_, _ = rand.Read(data)
	times := map[int]time.Duration{}
	for _, count := range []int{1, shards} {
		store, err := dynamostore.Open(ctx, b.client, j5ik2o.Layout{ShardCount: count, Journal: j5ik2o.Journal{Table: fmt.Sprintf("Journal%d", count), PartitionKey: j5ik2o.SequenceNumberBased},
			Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}}, dynamostore.Options{CreateTables: true})
		if err != nil {
			return 0, err
		}
		if err := appendEqual(ctx, store, "Figure|spread", events, 20, annals.Payload{SerializerID: 4, Data: data}); err != nil {
			return 0, err
		}
		b.proxy.SetCapacity(600, 0)
		b.proxy.SetRule(func(dynamo.Request) dynamo.Fault { return dynamo.Fault{Delay: 5 * time.Millisecond} })
		begun := time.Now()
		n, _, err := replayed(ctx, store, "Figure|spread")
		times[count] = time.Since(begun)
		b.proxy.SetCapacity(0, 0)
		b.proxy.SetRule(nil)
		_ = store.Close()
		if n != events || err != nil {
			return 0, fmt.Errorf("replayed %d events of %d, %w", n, events, err)
		}
	}
	return times[1].Seconds() / times[shards].Seconds(), nil
}
