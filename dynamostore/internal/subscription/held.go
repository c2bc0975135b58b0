package subscription

import (
	"cmp"
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

const (
	maxEvents   = 100 // in a delivery
	maxEntities = 98  // in a delivery: the marks and the shard are written in one transaction
)

// held is a shard that a loop holds.
type held struct {
	shard                      // as it was claimed; write is that of the last write, position is what the next one stores, and both are under lock
	at      time.Time          // of the last write that succeeded; under lock
	writer  chan struct{}      // has a value while the item of the shard is being written
	done    chan struct{}      // has a value when a delivery was acknowledged
	release context.CancelFunc // ends reading: the shard is free when no delivery is open
	drop    context.CancelFunc // ends reading, and the wait for the open delivery

	// These are under the mutex of the loop.
	next *delivery // waits to be taken
	open *delivery // was taken, and is not acknowledged
	lost bool      // the shard is free, or another loop has it, or may have it
}

// delivery is some events that are handed out together.
type delivery struct {
	events   []annals.Event
	upTo     map[annals.PersistenceID]mark
	position string // the last record whose events are in this delivery or in those before
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

// handOver makes d the next delivery of h, and waits until it is acknowledged. When ctx ends first, d can no longer be taken.
func (l *loop) handOver(ctx context.Context, h *held, d *delivery) error {
	l.mu.Lock()
	h.next = d
	l.mu.Unlock()
	signal(l.ready)
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		h.next = nil
		return ctx.Err()
	}
}

// ack is Delivery.Ack of d.
func (l *loop) ack(ctx context.Context, h *held, d *delivery) error {
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	l.mu.Lock()
	open, lost := h.open == d, h.lost
	l.mu.Unlock()
	switch {
	case !open:
		return nil
	case lost:
		return errLost
	}
	marks := make([]plan.Op, 0, len(d.upTo))
	for id, m := range d.upTo {
		marks = append(marks, plan.Op{Table: l.Table, Put: m.item(l.name, id)})
	}
	s := h.shard
	s.position = cmp.Or(d.position, s.position)
	if err := l.store(ctx, h, s, marks...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h.open = nil
	signal(h.done)
	return nil
}

// reach notes that everything up to position is acknowledged, and stores that at times.
func (l *loop) reach(ctx context.Context, h *held, position string) error {
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	if h.position = position; time.Since(h.at) < l.Lease {
		return nil
	}
	return l.store(ctx, h, h.shard)
}

// finish frees h, which is no longer read. Before, it waits for the acknowledgement of the open delivery, until ctx ends. ended says that
// nothing follows in the shard.
func (l *loop) finish(ctx context.Context, h *held, ended bool) {
	l.mu.Lock()
	open := h.open != nil
	l.mu.Unlock()
	if open {
		select {
		case <-h.done:
		case <-ctx.Done():
		}
	}
	err := repeated(ctx, func() error { return l.free(ctx, h, ended) })
	switch {
	case err == nil:
	case ctx.Err() == nil:
		l.fail(err)
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.Lease, time.Second))
		defer cancel()
		_ = l.free(ctx, h, ended) // an error makes others wait for the lease
	}
}

// free stores that h has no owner, and whether it has ended. It does nothing when this loop no longer holds h.
func (l *loop) free(ctx context.Context, h *held, ended bool) error {
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	l.mu.Lock()
	lost := h.lost
	l.mu.Unlock()
	if lost {
		return nil
	}
	s := h.shard
	s.owner, s.ended = "", ended
	err := l.store(ctx, h, s)
	if err == nil {
		l.lose(h)
	}
	return err
}

// store stores s as the item of h, which is locked, together with more. It is ErrFenced when another loop has the shard.
func (l *loop) store(ctx context.Context, h *held, s shard, more ...plan.Op) error {
	for {
		s.write = newWrite()
		out, err := l.Executor.Write(ctx, plan.Write{Ops: append([]plan.Op{l.change(s, h.write)}, more...), Refused: plan.Expected})
		switch {
		case err != nil:
			return err
		case !out.Refused:
			h.write, h.position, h.at = s.write, s.position, time.Now()
			return nil
		}
		// The write before is one of this loop's, when its answer was lost.
		if owner, _ := plan.Text(out.Old[0], attrOwner); owner != l.id {
			l.lose(h)
			return errLost
		}
		h.write, _ = plan.Text(out.Old[0], attrWrite)
	}
}

// lose notes that this loop no longer holds h. The next view takes h out of the list of the loop.
func (l *loop) lose(h *held) {
	l.mu.Lock()
	h.lost = true
	l.mu.Unlock()
	h.drop()
	signal(l.look)
}
