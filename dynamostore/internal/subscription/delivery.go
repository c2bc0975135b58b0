package subscription

import (
	"context"
	"maps"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

const (
	maxEvents   = 100 // in a delivery
	maxEntities = 98  // in a delivery: the marks and the shard are written in one transaction
)

// delivery is some events that are handed out together.
type delivery struct {
	shard  *reader
	events []annals.Event
	upTo   map[annals.PersistenceID]known
	acks   chan acknowledgement // to the reader of the shard, which alone writes the item of the shard
	done   chan struct{}        // closed when the reader takes no more of them
	acked  bool                 // what became of the delivery; to be read when done is closed
}

// acknowledgement is one call of Delivery.Ack.
type acknowledgement struct {
	ctx    context.Context
	result chan error // buffered, so that the reader does not wait for the caller
}

// ack is Delivery.Ack.
func (d *delivery) ack(ctx context.Context) error {
	a := acknowledgement{ctx, make(chan error, 1)}
	select {
	case d.acks <- a:
		return <-a.result
	case <-ctx.Done():
		return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
	case <-d.done:
	}
	if !d.acked {
		return errLost
	}
	return nil
}

// handOver hands out d, and waits until it is acknowledged. It gives up when reading ends before d is taken, or holding before d is acknowledged.
func (r *reader) handOver(reading context.Context, d *delivery) error {
	select {
	case r.offers <- d:
	case <-reading.Done():
		return reading.Err()
	}
	defer close(d.done)
	for {
		select {
		case a := <-d.acks:
			err := r.acknowledge(a.ctx, d)
			d.acked = err == nil
			a.result <- err
			if d.acked {
				return nil
			}
		case <-r.holding.Done():
			return r.holding.Err()
		}
	}
}

// acknowledge stores that d is acknowledged.
func (r *reader) acknowledge(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.writing, cancel)()
	s := r.shard
	s.position = r.position
	return r.store(ctx, s, d.upTo)
}

// free stores that no loop holds the shard, and whether it has ended: nothing follows in it. When that fails at the end of the loop, others read
// some records again.
func (r *reader) free(ended bool) {
	s := r.shard
	s.owner, s.ended = "", ended
	err := repeated(r.writing, func() error { return r.store(r.writing, s, nil) })
	if err != nil && r.holding.Err() == nil {
		r.fail(err)
	}
}

// store stores s as the item of the shard, together with marks and more. It is ErrFenced when another loop has the shard, or has stored another one of the
// marks: the items of an entity may be in several shards. A try whose outcome is not known is repeated as the same write.
func (r *reader) store(ctx context.Context, s shard, marks map[annals.PersistenceID]known, more ...plan.Op) error {
	for id, k := range marks {
		more = append(more, r.markOp(r.name, id, k))
	}
	if s != r.tried.shard || !maps.Equal(marks, r.tried.marks) {
		r.tried.shard, r.tried.marks, r.tried.write = s, marks, newWrite()
	}
	s.write = r.tried.write
	for {
		out, err := r.Executor.Write(ctx, plan.Write{Ops: append([]plan.Op{r.swap(s.item(r.name), r.shard.write)}, more...), Refused: plan.Expected})
		switch {
		case err != nil:
			return err
		case !out.Refused:
			r.shard.write, r.shard.position, r.shard.ended, r.stored = s.write, s.position, s.ended, time.Now()
			for id, k := range marks {
				r.marks.Change(id, func(now known, there bool) known {
					if !there {
						now = k
					}
					return known{now.mark, k.mark}
				})
			}
			return nil
		}
		// The write before is another one of this loop's, when its answer was lost.
		if owner, _ := plan.Text(out.Old[0], attrOwner); owner != r.id {
			r.drop()
			return errLost
		}
		r.shard.write, _ = plan.Text(out.Old[0], attrWrite)
	}
}
