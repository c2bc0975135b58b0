package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/storetest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Whatever faults requests meet, histories are linearizable: there is no false conflict, and no write is lost or doubled.
func TestLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layout    func() dynamostore.Layout
		throttled []string // what must have been refused for its rate: calls, batches, transactions
	}{
		"commit":               {newCommit, []string{"PutItem", "UpdateItem", "GetItem", "Query", "TransactWriteItems"}},
		"commit with an index": {newIndexed, []string{"PutItem", "UpdateItem", "GetItem", "Query", "TransactWriteItems"}},
		"j5ik2o by number":     {newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: 3}, false), []string{"PutItem", "UpdateItem", "GetItem", "Query", "BatchGetItem", "TransactWriteItems"}},
		"akka":                 {newAkka(false), []string{"PutItem", "Query", "BatchGetItem", "TransactWriteItems"}},
		"akka0":                {newAkka0(false), []string{"BatchGetItem", "TransactWriteItems"}},
		"esa":                  {newESA(esa.Layout{Shards: 3}), []string{"GetItem", "BatchGetItem", "TransactWriteItems"}},
		"esa, rust 5":          {newRust5(0, true), []string{"GetItem", "Query", "BatchGetItem", "TransactWriteItems"}},
		"j5ik2o by id":         {newJ5ik2o(j5ik2o.Journal{}, false), []string{"PutItem", "UpdateItem", "GetItem", "Query", "TransactWriteItems"}},
	} {
		if testing.Short() != (name == "commit" || name == "j5ik2o by id") {
			continue // make race runs these two, make test and make soak those that have more to do
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bs := &benches{layout: c.layout}
			t.Cleanup(func() { // after the cases, which run in parallel
				for _, operation := range c.throttled {
					if _, ok := bs.throttled.Load(operation); !ok {
						t.Errorf("%s was never throttled", operation)
					}
				}
			})
			storetest.Run(t, bs.underFaults(t))
		})
	}
}

// The same cases find a writer that takes every failed condition for the write of another.
func TestFaultsFindNaiveWriters(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]func() dynamostore.Layout{"commit": newCommit, "akka": newAkka(false), "akka0": newAkka0(false), "esa": newESA(esa.Layout{Shards: 3, WriteIDs: true}),
		"esa, rust 5": newRust5(0, true), "j5ik2o": newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: 8}, false)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bs := &benches{layout: layout, client: func(c dynamostore.Client) dynamostore.Client { return naive{c} }}
			c := bs.underFaults(t)
			c.Naive = true
			storetest.Run(t, c)
		})
	}
}

// underFaults is for the cases with faults alone.
func (bs *benches) underFaults(t *testing.T) storetest.Config {
	c := bs.config(t)
	c.Faults, c.Topics = bs.fail, []string{"FAULT"}
	return c
}

// fail is storetest.Config.Faults. Each fault repeats after a number of requests of an operation. Faults that make the store slow down are rare.
func (bs *benches) fail(_ testing.TB, s annals.Store) func() map[string]int {
	p := bs.of(s).route.proxy()
	happened := map[string]int{"answer lost": 0, "answer lost for good": 0, "500 after a write": 0, "500 or 503": 0, "throttled": 0, "late": 0}
	var (
		mu       sync.Mutex
		hopeless = map[string]bool{} // requests whose answers get lost however often they are sent
	)
	fault := func(name string, f dynamo.Fault) dynamo.Fault {
		happened[name]++
		return f
	}
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		mu.Lock()
		defer mu.Unlock()
		if hopeless[string(r.Body)] {
			return dynamo.Fault{LoseAnswer: true}
		}
		switch at := r.Number % 60; {
		case at == 2:
			bs.throttled.Store(r.Operation, true)
			return fault("throttled", dynamo.Fault{Throttle: true})
		case at == 16 && r.Writes():
			hopeless[string(r.Body)] = true
			return fault("answer lost for good", dynamo.Fault{LoseAnswer: true})
		case at%15 == 4:
			return fault("answer lost", dynamo.Fault{LoseAnswer: true})
		case at%15 == 7 && r.Writes():
			return fault("500 after a write", dynamo.Fault{StatusLate: http.StatusInternalServerError})
		case at%15 == 10:
			return fault("500 or 503", dynamo.Fault{Status: http.StatusInternalServerError + 3*(r.Number%2)})
		case at%5 == 3:
			return fault("late", dynamo.Fault{Delay: 2 * time.Millisecond})
		}
		return dynamo.Fault{}
	})
	return func() map[string]int {
		p.SetRule(nil)
		mu.Lock() // a request may still be on its way
		defer mu.Unlock()
		return maps.Clone(happened)
	}
}

// naive is a client that does not return the items of failed conditions, and that sends a repeated transaction with a new token.
type naive struct{ dynamostore.Client }

func (n naive) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := n.Client.PutItem(ctx, in, o...)
	return out, blind(err)
}

func (n naive) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := n.Client.UpdateItem(ctx, in, o...)
	return out, blind(err)
}

func (n naive) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	again, token := *in, rand.Text()
	again.ClientRequestToken = &token
	out, err := n.Client.TransactWriteItems(ctx, &again, o...)
	return out, blind(err)
}

func blind(err error) error {
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		failed.Item = nil
	}
	if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
		for i := range canceled.CancellationReasons {
			canceled.CancellationReasons[i].Item = nil
		}
	}
	return err
}
