package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Twenty goroutines send requests to a partition that takes 50 requests per second. Nearly all of its capacity is used, and few requests are
// throttled.
func TestPacerFindsTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, warm, taken = 50, 20 * time.Second, 60 * time.Second
		var (
			p              pacer
			mu             sync.Mutex
			left           = float64(limit)
			at             = time.Now()
			passed, turned int
		)
		admit := func() bool {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			left, at = min(left+limit*now.Sub(at).Seconds(), limit), now
			if left <= 0 {
				turned++
				return false
			}
			left--
			passed++
			return true
		}
		ctx, stop := context.WithCancel(t.Context())
		keys := []string{partition("w", "table", "key")}
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				for backoff.Sleep(ctx, time.Millisecond) == nil { // the way there and back
					if p.busy() && p.wait(ctx, keys) != nil {
						return
					}
					if admit() {
						p.pass(keys)
					} else {
						p.slow(keys)
					}
				}
			})
		}
		_ = backoff.Sleep(t.Context(), warm)
		mu.Lock()
		before, refused := passed, turned
		mu.Unlock()
		_ = backoff.Sleep(t.Context(), taken)
		mu.Lock()
		events, throttles := passed-before, turned-refused
		mu.Unlock()
		stop()
		senders.Wait()
		if share := float64(events) / (limit * taken.Seconds()); share < 0.97 {
			t.Errorf("%.3f of the limit was used", share)
		}
		// The limit falls where a tenth of a window's answers are throttles, so the mean over windows is near a tenth: 0.08 to 0.11.
		if ratio := float64(throttles) / float64(events); ratio > 0.15 {
			t.Errorf("%.3f requests were refused for each that passed", ratio)
		}
	})
}

// A key that takes thousands of requests per second is not slowed down by one throttled answer.
func TestPacerAfterOneThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := &throttledTable{admit: func() bool { n++; return n != 1000 }}
		e := c.engine()
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for range defaultConnections {
			done.Go(func() {
				for ctx.Err() == nil {
					_, _ = e.Write(ctx, plan.Write{Ops: []plan.Op{{Table: "t", Put: plan.Item{"pid": plan.S("busy")}}}})
				}
			})
		}
		for second := range 3 {
			_ = backoff.Sleep(ctx, time.Second)
			if n := c.since(); n < 49_000 {
				t.Errorf("%d requests in second %d, want 50,000", n, second)
			}
		}
		stop()
		done.Wait()
	})
}

// Other keys do not wait, and a key that has not been throttled for some time has no limit again.
func TestPacerKeepsKeysApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		begun := time.Now()
		for range 5 {
			for range rateEnough {
				p.slow([]string{partition("w", "table", "hot")})
				for range 3 {
					p.pass([]string{partition("w", "table", "cold")})
				}
			}
			_ = backoff.Sleep(t.Context(), rateWindow)
		}
		waited := func(key string) time.Duration {
			before := time.Now()
			for range 50 {
				if err := p.wait(t.Context(), []string{partition("w", "table", key)}); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(before)
		}
		if d := waited("cold"); d != 0 {
			t.Errorf("a key that was never throttled waited %v", d)
		}
		if d := waited("hot"); d < 100*time.Millisecond {
			t.Errorf("fifty requests to the throttled key waited %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, []string{partition("w", "table", "hot")}); err == nil {
			t.Error("a wait did not end with its context")
		}
		_ = backoff.Sleep(t.Context(), rateLife+time.Second)
		if d := waited("hot"); d != 0 || p.busy() {
			t.Errorf("%v after the throttle, the key still waited %v", time.Since(begun), d)
		}
		for i := range ratesKept {
			p.slow([]string{partition("w", "table", fmt.Sprint(i))})
		}
		_ = backoff.Sleep(t.Context(), rateLife+time.Second)
		p.slow([]string{partition("w", "table", "one more")})
		if n := p.known.Load(); n != 2 || len(p.byName) != 2 {
			t.Errorf("%d rates are kept", n)
		}
	})
}

// throttledTable is a client for writes to a table that accepts those that admit allows.
type throttledTable struct {
	Client
	mu    sync.Mutex
	sent  int
	admit func() bool
}

func (c *throttledTable) answer() error {
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	if c.admit() {
		return nil
	}
	return &types.ProvisionedThroughputExceededException{}
}

func (c *throttledTable) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, c.answer()
}

func (c *throttledTable) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return &dynamodb.TransactWriteItemsOutput{}, c.answer()
}

// since returns the number of requests since the last call of since.
func (c *throttledTable) since() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.sent = c.sent, 0
	return n
}

func (c *throttledTable) engine() *engine {
	return &engine{clock: time.Now, client: c, tables: map[string]plan.Table{"t": {Name: "t", Hash: plan.Key{Name: "pid"}}}, slots: make(chan struct{}, defaultConnections), attempts: defaultAttempts}
}

// A table that accepts nothing does not get repeated requests from each of its keys. When it accepts requests again, it is used again soon.
func TestThrottledTable(t *testing.T) {
	t.Parallel()
	for _, writers := range []int{50, 400} {
		synctest.Test(t, func(t *testing.T) {
			open := false
			c := &throttledTable{admit: func() bool { return open }}
			e := c.engine()
			ctx, stop := context.WithCancel(t.Context())
			var done sync.WaitGroup
			for i := range writers {
				done.Go(func() {
					op := plan.Op{Table: "t", Put: plan.Item{"pid": plan.S(fmt.Sprint(i))}}
					for ctx.Err() == nil {
						if _, err := e.Write(ctx, plan.Write{Ops: []plan.Op{op}}); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
			_ = backoff.Sleep(ctx, time.Second)
			if n := c.since(); n > 10*writers {
				t.Errorf("%d requests in the first second of %d keys", n, writers)
			}
			_ = backoff.Sleep(ctx, 9*time.Second)
			if n := c.since(); n > 9*4*rateLow {
				t.Errorf("%d requests in the next nine seconds", n)
			}
			c.mu.Lock()
			open = true
			c.mu.Unlock()
			_ = backoff.Sleep(ctx, 4*time.Second)
			c.since()
			_ = backoff.Sleep(ctx, time.Second)
			if n := c.since(); n < 4000 {
				t.Errorf("%d requests in the fifth second after the table takes everything again", n)
			}
			stop()
			done.Wait()
		})
	}
}

// A table whose capacity is below the demand of many keys with few requests each is used, and most requests are accepted.
func TestThrottledTableIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 200
		left, at, passed := 0.0, time.Now(), 0
		c := &throttledTable{admit: func() bool {
			now := time.Now()
			left, at = min(left+limit*now.Sub(at).Seconds(), limit), now
			if left < 1 {
				return false
			}
			left--
			passed++
			return true
		}}
		e := c.engine()
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for w := range 300 {
			done.Go(func() {
				for n := 0; ctx.Err() == nil; n++ { // another key each time
					op := plan.Op{Table: "t", Put: plan.Item{"pid": plan.S(fmt.Sprint(w, n))}}
					_, _ = e.Write(ctx, plan.Write{Ops: []plan.Op{op}})
				}
			})
		}
		total := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return passed
		}
		_ = backoff.Sleep(ctx, 5*time.Second)
		c.since()
		before := total()
		_ = backoff.Sleep(ctx, 10*time.Second)
		sent, used := c.since(), total()-before
		if share := float64(used) / (10 * limit); share < 0.9 || 2*sent > 5*used {
			t.Errorf("%.2f of the limit was used, by %d requests of which %d passed", share, sent, used)
		}
		stop()
		done.Wait()
	})
}

// A table that is being created is described again with growing waits.
func TestTableThatIsBeingCreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &newTable{}
		e := &engine{clock: time.Now, client: c, tables: map[string]plan.Table{}, described: map[string]*types.TableDescription{}, slots: make(chan struct{}, 1), attempts: defaultAttempts}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := (&Store{engine: e}).prepareTables(ctx, []plan.Table{{Name: "t", Hash: plan.Key{Name: "pid"}}}, Options{CreateTables: true})
		if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || c.described > 8 {
			t.Errorf("%d looks in three seconds, %v", c.described, err)
		}
	})
}

type newTable struct {
	Client
	described int
}

func (c *newTable) CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return &dynamodb.CreateTableOutput{}, nil
}

func (c *newTable) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	c.described++
	return nil, &types.ResourceNotFoundException{}
}

// A throttled transaction of the caller's own items is repeated with growing waits, and so is any throttled request.
func TestThrottledRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &throttledTable{admit: func() bool { return false }}
		e := c.engine()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		own := []types.TransactWriteItem{
			{Put: &types.Put{TableName: aws.String("theirs"), Item: plan.Item{"k": plan.S("1")}}},
			{Update: &types.Update{TableName: aws.String("t"), Key: plan.Item{"pid": plan.S("1")}}},
			{Delete: &types.Delete{TableName: aws.String("theirs")}},
			{ConditionCheck: &types.ConditionCheck{}},
			{},
		}
		_, err := e.transact(ctx, "", nil, own)
		var throttle *types.ProvisionedThroughputExceededException
		if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &throttle) {
			t.Errorf("the error does not say why: %v", err)
		}
		if n := c.since(); n < 5 || n > 25 {
			t.Errorf("%d requests in three seconds", n)
		}
	})
}
