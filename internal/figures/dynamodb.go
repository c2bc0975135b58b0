package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// dynamodbFigures compare dynamostore with direct use of the SDK, and its layouts with the service's limits per partition key.
func dynamodbFigures() []Figure {
	figures := []Figure{
		{
			Name:  "dynamodb-append-cpu",
			About: "processor time of an append, divided by that of the same conditional PutItem with the SDK by hand",
			Goal:  AtMost(1.10),
			Run:   func(ctx context.Context) (float64, error) { return putFigure(ctx, false, processorTime) },
		},
		{
			Name:  "dynamodb-append-allocs",
			About: "allocations of an append, divided by those of the same conditional PutItem with the SDK by hand",
			Goal:  AtMost(1.10),
			Run:   func(ctx context.Context) (float64, error) { return putFigure(ctx, false, allocations) },
		},
		{
			Name:  "dynamodb-replay",
			About: "time of a replay of 5,000 events, divided by that of a bare paginated Query that decodes the same items",
			Goal:  AtMost(1.15),
			Run:   queryFigure,
		},
		{
			Name:  "dynamodb-lean-append-cpu",
			About: "processor time of an append with Options.Lean, divided by that of the same conditional PutItem with the SDK by hand",
			Goal:  AtMost(0.6),
			Run:   func(ctx context.Context) (float64, error) { return putFigure(ctx, true, processorTime) },
		},
		{
			Name:  "dynamodb-lean-append-allocs",
			About: "allocations of an append with Options.Lean, divided by those of the same conditional PutItem with the SDK by hand",
			Goal:  AtMost(0.35),
			Run:   func(ctx context.Context) (float64, error) { return putFigure(ctx, true, allocations) },
		},
		{
			Name:  "dynamodb-lean-replay",
			About: "processor time of a replay of 5,000 events with Options.Lean, divided by that of a bare paginated Query that decodes the same items with the SDK",
			Goal:  AtMost(0.75),
			Run: func(ctx context.Context) (float64, error) {
				return replays(ctx, true, 0, smallEvents, 8, processorTime)
			},
		},
		{
			Name:  "dynamodb-replay-ranges",
			About: "time of a bare paginated Query over 20 MB of events, divided by that of their replay, with 5 ms a request",
			Goal:  AtLeast(1.5),
			Run:   rangesFigure,
		},
		{
			Name:  "dynamodb-throttles-32",
			About: "throttled requests per stored event, 32 shards at their limit of 50 write units a second",
			Goal:  AtMost(0.2),
			Run: func(ctx context.Context) (float64, error) {
				_, throttles, err := shardsFigure(ctx, 32, false)
				return throttles, err
			},
		},
		{
			Name:  "dynamodb-shards-16-index",
			About: "events stored a second over 16 shards with the plugin's index, divided by the limit of 50 write units a second of the index's one key",
			Goal:  AtLeast(0.9),
			Run: func(ctx context.Context) (float64, error) {
				share, _, err := shardsFigure(ctx, 16, true)
				return 16 * share, err
			},
		},
	}
	for _, shards := range []int{1, 4, 16, 32} {
		figures = append(figures, Figure{
			Name:  fmt.Sprintf("dynamodb-shards-%d", shards),
			About: fmt.Sprintf("events stored a second over %d shards without an index, divided by %d times the limit of 50 write units a second", shards, shards),
			Goal:  AtLeast(0.97),
			Run: func(ctx context.Context) (float64, error) {
				share, _, err := shardsFigure(ctx, shards, false)
				return share, err
			},
		})
	}
	for shards, goal := range map[int]float64{4: 3.5, 16: 12} {
		figures = append(figures, Figure{
			Name:  fmt.Sprintf("dynamodb-replay-%d", shards),
			About: fmt.Sprintf("time of a replay from one shard, divided by that from %d, with 5 ms a request and 600 read units a second and shard", shards),
			Goal:  AtLeast(goal),
			Run:   func(ctx context.Context) (float64, error) { return spreadFigure(ctx, shards) },
		})
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
func onDynamo(ctx context.Context, proxied bool, layout dynamostore.Layout, o dynamostore.Options, measure func(b *dynamoBench, store annals.Store) error) error {
	b, err := openDynamo(ctx, proxied)
	if err != nil {
		return err
	}
	defer b.close()
	o.CreateTables = true
	store, err := dynamostore.Open(ctx, b.client, layout, o)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return measure(b, store)
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

// putFigure alternates between appends and direct puts of the same item.
func putFigure(ctx context.Context, lean bool, spent func() float64) (value float64, err error) {
	const turns, each = 100, 50
	err = onDynamo(ctx, false, commit.Layout{Table: "figures"}, dynamostore.Options{Lean: lean}, func(b *dynamoBench, store annals.Store) error {
		value, err = ratio(turns, spent,
			writing("ours", each, func(id annals.PersistenceID, n annals.SeqNr) error { return appendOne(ctx, store, id, n-1) }),
			writing("hand", each, func(id annals.PersistenceID, n annals.SeqNr) error {
				return b.putByHand(ctx, "figures", string(id), int(n))
			}))
		return err
	})
	return value, err
}

func (b *dynamoBench) putByHand(ctx context.Context, table, id string, n int) error {
	w := annals.NewWriteID()
	_, err := b.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           aws.String(table),
		ConditionExpression:                 aws.String("attribute_not_exists(pid)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		Item: map[string]types.AttributeValue{
			"pid": &types.AttributeValueMemberS{Value: id},
			"seq": &types.AttributeValueMemberN{Value: fmt.Sprint(n)},
			"v":   &types.AttributeValueMemberN{Value: "1"},
			"w":   &types.AttributeValueMemberB{Value: w[:]},
			"at":  &types.AttributeValueMemberN{Value: fmt.Sprint(time.Now().UnixMicro())},
			"n":   &types.AttributeValueMemberN{Value: "1"},
			"ev": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
				"s":    &types.AttributeValueMemberN{Value: "31"},
				"type": &types.AttributeValueMemberS{Value: figurePayload.Manifest},
				"data": &types.AttributeValueMemberS{Value: string(figurePayload.Data)},
			}}}},
		},
	})
	return err
}

var smallEvents = events{count: 5000, batch: 1, payload: figurePayload}

// queryFigure alternates between a replay and a direct query over the same items.
func queryFigure(ctx context.Context) (float64, error) {
	return replays(ctx, false, 0, smallEvents, 8, clock)
}

// rangesFigure is the inverse for one long entity; every request takes 5 ms longer.
func rangesFigure(ctx context.Context) (float64, error) {
	payload := figurePayload
	payload.Data = bytes.Repeat([]byte("x"), 2048)
	share, err := replays(ctx, false, 5*time.Millisecond, events{count: 10_000, batch: 10, payload: payload}, 4, clock)
	return 1 / share, err
}

// events appends many equal events, in commits of batch.
type events struct {
	count, batch int
	payload      annals.Payload
}

// replays alternates between a replay of all events and a direct query over the same items, whose requests take longer by delay. It returns
// what the replay spends, divided by what the query spends.
func replays(ctx context.Context, lean bool, delay time.Duration, all events, turns int, spent func() float64) (value float64, err error) {
	id := annals.NewPersistenceID("Figure", "replayed")
	err = onDynamo(ctx, delay > 0, commit.Layout{Table: "figures"}, dynamostore.Options{Lean: lean}, func(b *dynamoBench, store annals.Store) error {
		if delay > 0 {
			b.proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
				if r.Operation != "Query" {
					return dynamo.Fault{}
				}
				return dynamo.Fault{Delay: delay}
			})
		}
		batch := slices.Repeat([]annals.NewEvent{{Payload: all.payload}}, all.batch)
		for n := 0; n < all.count; n += all.batch {
			if _, err := store.Journal().Append(ctx, annals.Commit{ID: id, After: annals.SeqNr(n), Events: batch}); err != nil {
				return err
			}
		}
		complete := func(n, sum int, err error) error {
			if err == nil && (n != all.count || sum != n*len(all.payload.Data)) {
				err = fmt.Errorf("read %d events of %d bytes", n, sum)
			}
			return err
		}
		value, err = ratio(turns, spent,
			func() error { return complete(replayed(ctx, store, id)) },
			func() error { return complete(b.queryByHand(ctx, "figures", string(id))) })
		return err
	})
	return value, err
}

// queryByHand reads and decodes every event of id with the SDK.
func (b *dynamoBench) queryByHand(ctx context.Context, table, id string) (n, sum int, err error) {
	in := &dynamodb.QueryInput{TableName: aws.String(table), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pid = :id"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":id": &types.AttributeValueMemberS{Value: id}}}
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

// shardsFigure writes the events of one entity as fast as the model of its shards accepts them. It returns the share of the possible rate
// and the throttled requests per event, after the burst capacity of the start has been used.
func shardsFigure(ctx context.Context, shards int, indexed bool) (share, throttles float64, err error) {
	layout := j5ik2o.Layout{ShardCount: shards, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}, NoIndex: !indexed}
	err = onDynamo(ctx, true, layout, dynamostore.Options{MaxInFlight: 128}, func(b *dynamoBench, store annals.Store) error {
		share, throttles, err = b.shards(ctx, store, shards)
		return err
	})
	return share, throttles, err
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
	wait := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	wait(warm)
	before, refused, begun := stored.Load(), b.proxy.Throttles(), time.Now()
	wait(taken)
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
		batch := make([]annals.NewEvent, 20)
		for i := range batch {
			batch[i] = annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: data}}
		}
		for n := 0; n < events; n += len(batch) {
			if _, err := store.Journal().Append(ctx, annals.Commit{ID: "Figure|spread", After: annals.SeqNr(n), Events: batch}); err != nil {
				return 0, err
			}
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
