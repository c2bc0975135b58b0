package subscription

import (
	"cmp"
	"context"
	"errors"
	"slices"

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
	shard          // as this loop took it; write is that of the last write, and is under lock
	after  []*held // the shards before this one that had not ended when this one began: their last deliveries were not acknowledged
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

// clear reports whether everything before h is stored. The lock of the loop is held.
func (h *held) clear() bool {
	for _, before := range h.after {
		if len(before.open) > 0 || !before.clear() {
			return false
		}
	}
	return true
}

// ack is Delivery.Ack of d.
func (l *loop) ack(ctx context.Context, h *held, d *delivery) error {
	l.mu.Lock()
	d.acked = true
	fenced := (h.lost || l.ended) && !d.stored
	l.mu.Unlock()
	if fenced {
		return errLost
	}
	err := l.flush(ctx, h)
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.stored {
		return nil
	}
	return err
}

// flush stores what is acknowledged in h up to the first delivery that is not, and then in the shards that wait for that.
func (l *loop) flush(ctx context.Context, h *held) error {
	if err := l.flushOne(ctx, h); err != nil {
		return err
	}
	l.mu.Lock()
	var next []*held
	if len(h.open) == 0 {
		for _, o := range l.held {
			if slices.Contains(o.after, h) {
				next = append(next, o)
			}
		}
	}
	l.mu.Unlock()
	for _, o := range next {
		if err := l.flush(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) flushOne(ctx context.Context, h *held) error {
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	for {
		d, err := l.firstAcked(h)
		if d == nil {
			return err
		}
		more := make([]plan.Op, 0, len(d.upTo))
		for id, m := range d.upTo {
			more = append(more, plan.Op{Table: l.Table, Put: m.item(l.name, id)})
		}
		if err := l.store(ctx, h, h.shard, d.position, more); err != nil {
			return err
		}
		l.mu.Lock()
		d.stored = true
		h.open = h.open[1:]
		signal(l.ready)
		if len(h.open) == 0 && (h.parked || h.finished) {
			signal(l.look)
		}
		l.mu.Unlock()
	}
}

// firstAcked returns the first delivery of h that is not stored, if it is acknowledged and can be stored.
func (l *loop) firstAcked(h *held) (*delivery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case h.lost || l.ended:
		return nil, errLost
	case len(h.open) == 0 || !h.open[0].acked || !h.clear():
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
			h.write = s.write
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
			l.lose(h)
			l.mu.Unlock()
			signal(l.look)
			return errLost
		}
		h.write, _ = plan.Text(stands, attrWrite)
	}
}
