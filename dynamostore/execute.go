package dynamostore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// engine is the plan.Executor that talks to DynamoDB; this file and its neighbours execute_*.go are the only ones that do.
// It answers for pages, chunks, unprocessed parts, throttling, conflicts of transactions and lost answers.
type engine struct {
	client    Client
	tables    map[string]plan.Table
	described map[string]*types.TableDescription // as they were at open
	slots     chan struct{}                      // one for each request in flight
	attempts  int                                // sendings of a request whose answers get lost
	observed  bool
	pace      pacer
}

// backoff bounds the waits between two sendings: the n-th is random, below first·2ⁿ and below most.
const (
	backoffFirst = 10 * time.Millisecond
	backoffMost  = time.Second
)

// Now is plan.Executor.
func (e *engine) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// request is one exchange with the service, to be sent as often as it takes.
type request struct {
	keys func() []string // the partition keys it touches, for pacing
	send func() error
	read bool
	// prepare is called before every sending. open is that of run. nil: nothing to prepare.
	prepare func(open bool)
}

// run sends r until it is answered: through throttling and conflicts of transactions as long as ctx lasts, through lost
// answers a bounded number of times. open reports that an answer was lost on the way, so that what was sent then may
// have been written. The error is nil or a *annals.Error; failed is its class.
func (e *engine) run(ctx context.Context, r request) (open bool, failed class, err error) {
	costs := costsOf(ctx)
	losses := 0
	for try := 0; ; try++ {
		if err := e.turn(ctx, r); err != nil {
			return open, down, giveUp(ctx, down, err, open)
		}
		costs.sent(try)
		if r.prepare != nil {
			r.prepare(open)
		}
		err := r.send()
		<-e.slots
		if err == nil {
			return open, 0, nil
		}
		c := classify(err)
		switch c {
		case refused, wrong, down:
			return open, c, giveUp(ctx, c, err, open)
		case throttled:
			e.pace.slow(r.keys())
			continue // the lane says when
		case lost:
			losses++
			open = open || !r.read
			if losses >= e.attempts || ctx.Err() != nil {
				return open, c, giveUp(ctx, c, err, open)
			}
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return open, c, giveUp(ctx, c, err, open)
		}
	}
}

// turn waits until r may go out: for its partition keys' lanes, then for a free slot.
func (e *engine) turn(ctx context.Context, r request) error {
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

func backoff(try int) time.Duration {
	return rand.N(min(backoffFirst<<min(try, 10), backoffMost))
}

// giveUp is the error of a request that is not sent again.
func giveUp(ctx context.Context, c class, err error, open bool) error {
	kind := annals.ErrUnavailable
	switch {
	case open:
		kind = annals.ErrUnknown
	case c == wrong:
		kind = annals.ErrInvalid
	case c == refused:
		kind = annals.ErrConflict
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err)
	}
	return &annals.Error{Kind: kind, Err: err}
}

// partition names a partition key of a table for the pacer. Reads and writes have capacities of their own.
func partition(mode, table, hash string) string { return mode + table + "\x00" + hash }

// keysOf are the partition keys that ops touch.
func (e *engine) keysOf(ops []plan.Op) []string {
	keys := make([]string, 0, len(ops))
	for _, op := range ops {
		it := op.Key
		if op.Put != nil {
			it = op.Put
		}
		key := partition("w", op.Table, hashText(it[e.tables[op.Table].Hash.Name]))
		if len(keys) == 0 || keys[len(keys)-1] != key {
			keys = append(keys, key)
		}
	}
	return keys
}

func hashText(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}
