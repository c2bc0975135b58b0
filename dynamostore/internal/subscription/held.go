package subscription

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
)

const (
	maxEvents   = 100 // in a delivery
	maxEntities = 98  // in a delivery: the marks and the shard are written in one transaction
)

// held is a shard that a loop holds.
type held struct {
	shard             // as it was claimed; write and position are those of the last write, and under lock
	at      time.Time // when it was stored; under lock
	writer  chan struct{}
	done    chan struct{}      // has a value when a delivery was acknowledged
	release context.CancelFunc // ends reading; the shard is free when no delivery is open
	drop    context.CancelFunc // frees the shard
	marks   *plan.Recent[annals.PersistenceID, mark]

	// These are under the mutex of the loop.
	next *delivery // waits to be taken
	open *delivery // was taken, and is not acknowledged
	read string    // the last record up to which everything is acknowledged
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

// handOver waits until d is acknowledged. If ctx ends before somebody has taken d, nobody does.
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
	h.open, h.read = nil, s.position
	signal(h.done)
	return nil
}

// reach notes that everything up to position is acknowledged, and stores that at times.
func (l *loop) reach(ctx context.Context, h *held, position string) error {
	l.mu.Lock()
	h.read = position
	l.mu.Unlock()
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	if position == h.position || time.Since(h.at) < l.Lease {
		return nil
	}
	s := h.shard
	s.position = position
	return l.store(ctx, h, s)
}

// finish frees h, whose reader has returned err. Before, it waits for the acknowledgement of the open delivery, until ctx ends.
func (l *loop) finish(ctx context.Context, h *held, released bool, err error) {
	ended := err == nil
	if !ended && !released {
		l.mu.Lock()
		if errors.Is(err, stream.ErrTrimmed) {
			l.trimmed = h.round
			signal(l.look)
		} else {
			l.failed(err)
		}
		l.mu.Unlock()
		<-ctx.Done()
	}
	l.mu.Lock()
	open := h.open != nil
	l.mu.Unlock()
	if open {
		select {
		case <-h.done:
		case <-ctx.Done():
		}
	}
	err = repeated(ctx, func() error { return l.free(ctx, h, ended) })
	if ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.Lease, time.Second))
		defer cancel()
		_ = l.free(ctx, h, ended) // an error makes others wait for the lease
	} else if err != nil {
		l.fail(err)
	}
}

// free stores that nobody holds h.
func (l *loop) free(ctx context.Context, h *held, ended bool) error {
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	s := h.shard
	l.mu.Lock()
	lost := h.lost
	s.owner, s.ended, s.position = "", ended, cmp.Or(h.read, s.position)
	l.mu.Unlock()
	if lost {
		return nil
	}
	err := l.store(ctx, h, s)
	if err == nil {
		l.mu.Lock()
		h.lost = true
		l.mu.Unlock()
		signal(l.look)
	}
	return err
}

// store stores s as the item of h, which is locked, together with more. It is ErrFenced when another loop has the shard.
func (l *loop) store(ctx context.Context, h *held, s shard, more ...plan.Op) error {
	for {
		seen := h.write
		s.write = newWrite()
		var stands plan.Item
		w := plan.Write{Ops: append([]plan.Op{l.change(s, seen)}, more...), Refused: func(old []plan.Item, _ bool) error {
			stands = old[0]
			return &annals.Error{Kind: annals.ErrConflict}
		}}
		_, err := l.Executor.Write(ctx, w)
		switch {
		case err == nil:
			h.write, h.position, h.at = s.write, s.position, time.Now()
			return nil
		case !errors.Is(err, annals.ErrConflict):
			return err
		}
		// The write before is one of this loop's, when its answer was lost.
		if owner, _ := plan.Text(stands, attrOwner); owner != l.id {
			l.mu.Lock()
			h.lost = true
			l.mu.Unlock()
			h.drop()
			signal(l.look)
			return errLost
		}
		h.write, _ = plan.Text(stands, attrWrite)
	}
}
