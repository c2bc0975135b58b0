package dynamostore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// engine is the plan.Executor that sends requests to DynamoDB; only this file and execute_*.go do that. The engine handles pages,
// the sizes of batches, unprocessed parts, throttling, conflicts of transactions and lost answers.
type engine struct {
	client    Client
	tables    map[string]plan.Table
	described map[string]*types.TableDescription // when the store was opened
	slots     chan struct{}                      // holds one value for each request under way
	attempts  int                                // how often a request is sent when its answers are lost
	observed  bool
	pace      pacer
	clock     func() time.Time // time.Now, but in tests
}

// The wait before the n-th repetition of a request is random, below backoffFirst·2ⁿ and below backoffMost.
const (
	backoffFirst = 10 * time.Millisecond
	backoffMost  = time.Second
)

// conflictsLast is for how long a request is repeated that meets transactions of others.
const conflictsLast = time.Minute

func (e *engine) Now() time.Time { return e.clock().UTC().Truncate(time.Microsecond) }

// request is sent to the service until it is answered.
type request struct {
	keys func() []string // the names of the partitions it uses, for the pacer
	send func(ctx context.Context) error
	read bool
	// prepare, when not nil, is called before each time the request is sent. open is that of run.
	prepare func(open bool)
	within  time.Duration // from prepare to the end of a try: one without an answer then is lost; 0 is without bound
	// lasts is for how long an open request is sent again, counted from the first try that may have been stored; 0 is without bound.
	lasts time.Duration
}

// run sends r until it is answered. Throttled requests are repeated until ctx ends, conflicts of transactions for conflictsLast, lost
// answers and failed connections a bounded number of times. open reports that an answer to a write was lost, so that the write may have been
// stored. The error is nil or an *annals.Error; failed is its class.
func (e *engine) run(ctx context.Context, r request) (open bool, failed class, err error) {
	if !r.read {
		return e.exchange(ctx, r)
	}
	err = driver.Fetch(ctx, func(ctx context.Context) (err error) {
		open, failed, err = e.exchange(ctx, r)
		return err
	})
	return open, failed, err
}

func (e *engine) exchange(ctx context.Context, r request) (open bool, failed class, err error) {
	losses := 0
	var last error              // the last error of the service
	var sent, clocked time.Time // of the last try before the request was open, by the monotonic clock and by the other
	var conflict time.Time      // the first
	for try := 0; ; try++ {
		if err := e.admit(ctx, r); err != nil {
			return open, down, giveUp(ctx, down, last, open)
		}
		switch {
		case !open:
			sent, clocked = time.Now(), e.clock().Round(0)
		case r.lasts > 0 && max(time.Since(sent), e.clock().Sub(clocked)) > r.lasts: // the monotonic clock stands still while the machine is suspended
			<-e.slots
			return open, lost, giveUp(ctx, lost, last, open)
		}
		driver.Count(ctx, annals.Result{Requests: 1, Retries: min(try, 1)})
		if r.prepare != nil {
			r.prepare(open)
		}
		last = r.bounded(ctx)
		<-e.slots
		c := class(0)
		if last != nil {
			c = classify(last)
		}
		switch {
		case c == throttled:
			driver.Count(ctx, annals.Result{Throttles: 1})
			e.pace.slow(r.keys())
		case c != lost && c != unreached && e.pace.busy():
			e.pace.pass(r.keys())
		}
		switch c {
		case 0:
			return open, c, nil
		case refused, wrong, reused, down:
			return open, c, giveUp(ctx, c, last, open)
		case lost, unreached:
			losses++
			open = open || c == lost && !r.read
			if losses >= e.attempts {
				return open, c, giveUp(ctx, c, last, open)
			}
		case busy:
			if conflict.IsZero() {
				conflict = time.Now()
			} else if time.Since(conflict) > conflictsLast {
				return open, c, giveUp(ctx, c, last, open)
			}
		}
		// After a throttle too: the key's rate limit does not know that this one request is throttled again and again.
		if err := backoff.Sleep(ctx, retryDelay(try)); err != nil {
			return open, c, giveUp(ctx, c, last, open)
		}
	}
}

// bounded sends r once.
func (r request) bounded(ctx context.Context) error {
	if r.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.within)
		defer cancel()
	}
	return r.send(ctx)
}

// admit waits until r may be sent: first for the rate limits of its partition keys, then for a free slot.
func (e *engine) admit(ctx context.Context, r request) error {
	if e.pace.busy() {
		if err := e.pace.wait(ctx, r.keys()); err != nil {
			return err
		}
	}
	select {
	case e.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func retryDelay(try int) time.Duration {
	return rand.N(min(backoffFirst<<min(try, 10), backoffMost))
}

// giveUp returns the error of a request that is not sent again. err is the last error of the service; nil when there was none.
func giveUp(ctx context.Context, c class, err error, open bool) error {
	kind := annals.ErrUnavailable
	switch {
	case open:
		kind = annals.ErrUnknown
	case c == wrong:
		kind = annals.ErrInvalid
	case c == refused, c == reused:
		kind = annals.ErrConflict
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		if err != nil {
			ended = errors.Join(ended, err)
		}
		err = ended
	}
	return &annals.Error{Kind: kind, Err: err}
}

// keysOf returns the names of the partitions that ops use. An item that is put into indexes is counted for the table and these indexes
// together, apart from other items of the table: the service does not say which of them is over its capacity, and the other items do not
// use these indexes.
func (e *engine) keysOf(ops []plan.Op) (keys []string) {
	for _, op := range ops {
		table, it, name := e.tables[op.Table], op.Item(), op.Table
		for _, i := range table.Indexes {
			if it[i.Hash.Name] != nil {
				name += i.Name
			}
		}
		keys = append(keys, partition("w", name, plan.KeyText(it[table.Hash.Name])))
	}
	return slices.Compact(keys)
}

// keysOfGets returns the names of the partitions of the items of gets. mode is that of partition.
func (e *engine) keysOfGets(mode string, gets ...plan.Get) (keys []string) {
	for _, g := range gets {
		keys = append(keys, e.keyOf(mode, g.Table, g.Key))
	}
	return slices.Compact(keys)
}

// keysOfOwn returns the names of the partitions that the caller's own items use. For tables that are not the store's these are the names
// of the tables.
func (e *engine) keysOfOwn(own []types.TransactWriteItem) (keys []string) {
	for _, item := range own {
		var table *string
		var it plan.Item
		switch {
		case item.Put != nil:
			table, it = item.Put.TableName, item.Put.Item
		case item.Update != nil:
			table, it = item.Update.TableName, item.Update.Key
		case item.Delete != nil:
			table, it = item.Delete.TableName, item.Delete.Key
		case item.ConditionCheck != nil:
			table, it = item.ConditionCheck.TableName, item.ConditionCheck.Key
		}
		keys = append(keys, e.keyOf("w", aws.ToString(table), it))
	}
	return keys
}

func (e *engine) keyOf(mode, table string, key plan.Item) string {
	return partition(mode, table, plan.KeyText(key[e.tables[table].Hash.Name]))
}

// capacity is what requests ask the service to return.
func (e *engine) capacity() types.ReturnConsumedCapacity {
	if e.observed {
		return types.ReturnConsumedCapacityTotal
	}
	return "" // the default is none
}

func countRead(ctx context.Context, c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		driver.Count(ctx, annals.Result{ReadUnits: *c.CapacityUnits})
	}
}

func countWrite(ctx context.Context, c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		driver.Count(ctx, annals.Result{WriteUnits: *c.CapacityUnits})
	}
}
