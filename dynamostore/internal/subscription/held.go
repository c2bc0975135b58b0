package subscription

import (
	"cmp"
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

const (
	maxOpen     = 100 // deliveries of a shard that are not acknowledged
	maxEvents   = 100 // in a delivery
	maxEntities = 98  // in a delivery: the marks and the shard are written in one transaction
)

// held is a shard that a loop holds.
type held struct {
	shard  // as this loop wrote it last; its fields change under lock alone
	stop   context.CancelFunc
	taken  chan struct{} // has a value when next was taken
	writer chan struct{} // has a value while the item of the shard is being written
	marks  *plan.Recent[annals.PersistenceID, mark]

	// These are under the mutex of the loop.
	next     *delivery
	open     []*delivery // up to the newest that was taken, from the first that is not stored
	read     string      // the last record that is in no later delivery than next
	stored   string      // the position as it is stored
	finished bool        // nothing follows next
	parked   bool        // is to be handed over: nothing more is taken
	lost     bool        // another loop has the shard, or may have it
}

// delivery is some events that are handed out together.
type delivery struct {
	events   []annals.Event
	upTo     map[annals.PersistenceID]mark
	position string // the last record whose events are in this delivery or in those before
	acked    bool
	stored   bool
}

// lock waits until nothing else writes the item of the shard.
func (h *held) lock(ctx context.Context) error {
	select {
	case h.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
	}
}

func (h *held) unlock() { <-h.writer }

// ack is Delivery.Ack of d. It stores what is acknowledged up to the first delivery that is not.
func (l *loop) ack(ctx context.Context, h *held, d *delivery) error {
	l.mu.Lock()
	d.acked = true
	l.mu.Unlock()
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	for {
		first, err := l.firstAcked(h, d)
		if first == nil {
			return err
		}
		s, more := h.shard, make([]plan.Op, 0, len(first.upTo))
		for id, m := range first.upTo {
			more = append(more, plan.Op{Table: l.Table, Put: m.item(l.name, id)})
		}
		err = l.store(ctx, h, s, first.position, more)
		l.mu.Lock()
		if err == nil {
			first.stored = true
			h.open = h.open[1:]
			signal(l.ready)
			if len(h.open) == 0 && (h.parked || h.finished) {
				signal(l.look)
			}
		}
		done := d.stored
		l.mu.Unlock()
		if err != nil {
			if done {
				err = nil
			}
			return err
		}
	}
}

// firstAcked returns the delivery of h that is to be stored next. When there is none, the error is that of an acknowledgement of d.
func (l *loop) firstAcked(h *held, d *delivery) (*delivery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case (h.lost || l.ended) && !d.stored:
		return nil, errLost
	case h.lost || l.ended || len(h.open) == 0 || !h.open[0].acked:
		return nil, nil
	}
	return h.open[0], nil
}

// store stores s and position as the item of h, together with more. It is ErrFenced when another loop has the shard.
func (l *loop) store(ctx context.Context, h *held, s shard, position string, more []plan.Op) error {
	for {
		s.write = newWrite()
		var stands plan.Item
		w := plan.Write{Ops: append([]plan.Op{l.change(s, h.write, position)}, more...), Refused: func(old []plan.Item, _ bool) error {
			stands = old[0]
			return &annals.Error{Kind: annals.ErrConflict}
		}}
		_, err := l.Executor.Write(ctx, w)
		switch {
		case err == nil:
			h.shard = s
			l.mu.Lock()
			h.stored = cmp.Or(position, h.stored)
			l.mu.Unlock()
			return nil
		case !errors.Is(err, annals.ErrConflict):
			return err
		}
		// The write before is one of this loop's, when its answer was lost.
		if owner, _ := plan.Text(stands, attrOwner); owner != l.id {
			l.mu.Lock()
			l.drop(h)
			l.mu.Unlock()
			signal(l.look)
			return errLost
		}
		h.write, _ = plan.Text(stands, attrWrite)
	}
}
