package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// countedStreams counts the requests for records.
type countedStreams struct {
	dynamostore.StreamsClient
	records atomic.Int64
}

func (c *countedStreams) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	c.records.Add(1)
	return c.StreamsClient.GetRecords(ctx, in, o...)
}

// A subscription without new events costs what docs/stores/dynamodb.md says.
func TestSubscriberCosts(t *testing.T) {
	t.Parallel()
	const shards = 2
	documented := documentedRows(t, "| each |")
	out := newOutside(t.Context(), 50)
	endpoint := dynamo.Endpoint(t)
	proxy := dynamo.NewStreamsProxy(endpoint, dynamo.Streams{Shards: shards})
	defer proxy.Close()
	synctest.Test(t, func(t *testing.T) {
		o := &spent{}
		access := credentials.NewStaticCredentialsProvider("test", "test", "")
		streams := &countedStreams{StreamsClient: dynamodbstreams.New(dynamodbstreams.Options{HTTPClient: out, BaseEndpoint: &proxy.Endpoint, Region: "us-east-1", Credentials: access})}
		client := dynamodb.New(dynamodb.Options{HTTPClient: out, BaseEndpoint: &endpoint, Region: "us-east-1", Retryer: aws.NopRetryer{}, Credentials: access})
		store, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: "t" + rand.Text()}, dynamostore.Options{CreateTables: true, Observer: o,
			Subscriptions: dynamostore.Subscriptions{Table: "s" + rand.Text(), Streams: streams}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		if _, err := store.Journal().Append(t.Context(), annals.Commit{ID: "Thread|1", Events: texts("e")}); err != nil {
			t.Fatal(err)
		}
		// loop subscribes for some time, and returns what that costs.
		loop := func(long time.Duration) (records, read, write float64) {
			o.take()
			streams.records.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			for d, err := range store.Unwrap().(ability.Subscriber).Subscribe(ctx, "idle", annals.Filter{}) {
				if errors.Is(err, context.DeadlineExceeded) {
					break
				}
				if err == nil {
					err = d.Ack(ctx)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			read, write = o.take()
			return float64(streams.records.Load()), read, write
		}
		loop(time.Minute) // the only delivery
		// The difference of two times leaves out what the beginning and the end of a loop cost.
		const short, long = time.Minute, 4 * time.Minute
		records, read, write := loop(short)
		moreRecords, moreRead, moreWrite := loop(long)
		hours := (long - short).Hours()
		records, read, write = (moreRecords-records)/hours/shards, (moreRead-read)/hours, (moreWrite-write)/hours
		const month = 24 * 365 / 12
		for i, row := range [][4]float64{ // US East, on demand
			{records, 0, 0, month * records * 0.2e-6},
			{0, read, write, month * (read*0.125e-6 + write*0.625e-6)},
		} {
			t.Logf("in an hour: %.0f GetRecords, %.0f read units, %.0f write units; in a month %.2f dollars", row[0], row[1], row[2], row[3])
			for k, n := range row {
				if want := documented[i][k]; math.Abs(n-want) > want/10 {
					t.Errorf("counted %.2f, documented is %.2f", n, want)
				}
			}
		}
	})
}
