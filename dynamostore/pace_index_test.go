package dynamostore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// throttledIndex is a client for a table with an index. While the index is closed it accepts nothing: neither queries of the index nor
// writes of items that are in it.
type throttledIndex struct {
	Client
	mu     sync.Mutex
	closed bool
	sent   map[string]int // by kind of request
}

func (c *throttledIndex) answer(kind string, indexed bool) error {
	time.Sleep(10 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[kind]++
	if indexed && c.closed {
		return &types.ProvisionedThroughputExceededException{}
	}
	return nil
}

func (c *throttledIndex) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if in.Item["feed"] != nil {
		return &dynamodb.PutItemOutput{}, c.answer("indexed write", true)
	}
	return &dynamodb.PutItemOutput{}, c.answer("write", false)
}

func (c *throttledIndex) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{}, c.answer("read", false)
}

func (c *throttledIndex) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{}, c.answer("query of the index", true)
}

// reset closes or opens the index and forgets the requests so far.
func (c *throttledIndex) reset(closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.sent = closed, map[string]int{}
}

// An index that accepts nothing gets few requests, whether the table is used beside it or not. What does not use the index goes on. When
// the index accepts requests again, all calls succeed.
func TestThrottledIndex(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ callers, beside int }{{50, 0}, {50, 5}, {400, 5}} {
		synctest.Test(t, func(t *testing.T) { throttleIndex(t, c.callers, c.beside) })
	}
}

// throttleIndex runs callers of each kind that uses the index, and callers beside them that do not.
func throttleIndex(t *testing.T, callers, beside int) {
	c := &throttledIndex{closed: true, sent: map[string]int{}}
	e := &engine{clock: time.Now, client: c, slots: make(chan struct{}, defaultConnections), attempts: defaultAttempts, tables: map[string]plan.Table{
		"t": {Name: "t", Hash: plan.Key{Name: "pid"}, Indexes: []plan.Index{{Name: "i", Hash: plan.Key{Name: "feed"}}}}}}
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	call := func(n int, run func(id string) error) {
		for i := range n {
			done.Go(func() {
				for ctx.Err() == nil {
					if err := run(fmt.Sprint(i)); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
	}
	put := func(it plan.Item) error {
		_, err := e.Write(ctx, plan.Write{Ops: []plan.Op{{Table: "t", Put: it}}})
		return err
	}
	call(callers, func(id string) error { return put(plan.Item{"pid": plan.S(id), "feed": plan.S("Thing#06")}) })
	call(callers, func(id string) (failed error) {
		for _, failed = range e.Query(ctx, plan.Query{Table: "t", Index: "i", Hash: id}) {
		}
		return failed
	})
	call(beside, func(id string) error { return put(plan.Item{"pid": plan.S("not in the index " + id)}) })
	call(beside, func(id string) error {
		_, _, err := e.Get(ctx, plan.Get{Table: "t", Key: plan.Item{"pid": plan.S(id)}})
		return err
	})
	want := func(when string, least, most int, kinds ...string) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, kind := range kinds {
			if n := c.sent[kind]; n < least || n > most {
				t.Errorf("%d callers, %d beside them: %d requests in %s: %s; want %d to %d", callers, beside, n, when, kind, least, most)
			}
		}
	}
	indexed, others := []string{"indexed write", "query of the index"}, []string{"write", "read"}
	_ = backoff.Sleep(ctx, time.Second)
	want("the first second", 0, 10*callers, indexed...)
	c.reset(true)
	_ = backoff.Sleep(ctx, 9*time.Second)
	want("the next nine seconds", 0, 9*4*rateLow, indexed...)
	want("the next nine seconds", 9*beside*90, 9*beside*101, others...)
	c.reset(false)
	_ = backoff.Sleep(ctx, 4*time.Second)
	c.reset(false)
	_ = backoff.Sleep(ctx, time.Second)
	want("the fifth second after the index accepts all", 1000, 5000, indexed...)
	want("the fifth second after the index accepts all", beside, beside*101, others...)
	stop()
	done.Wait()
}
