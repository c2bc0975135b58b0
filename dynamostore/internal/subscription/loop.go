package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/leases"
	"github.com/annals-go/annals/internal/quote"
)

// loop is one call of Subscribe. A goroutine holds its shards, another one for each shard reads what follows there, and the caller's takes
// deliveries.
type loop struct {
	*Subscriptions
	name   string
	filter annals.Filter
	id     string
	stop   context.CancelFunc
	left   chan struct{} // closed when the shards are free
	ready  chan struct{} // has a value when a delivery may be ready, or the loop has failed
	look   chan struct{} // has a value when the table is to be looked at now

	// These are of the goroutine that holds the shards.
	watch  leases.Watch[string]
	round  int64 // that is held; 0 is none
	waits  bool  // for shards that others hand over
	list   bool  // a shard has ended, so others may follow
	listed struct {
		write string // of the head, when the shards of the stream were last known to be listed
		at    time.Time
	}
	listing *listing // that is not complete; nil is none
	readers sync.WaitGroup

	mu      sync.Mutex // of the fields below, and of those of held
	held    []*held
	taken   int       // the shard that was looked at last
	renewed time.Time // when the view was read last
	trimmed int64     // the round in which records were removed before they were read; 0 is none
	err     error     // that ends the loop
}

// signal puts a value into c, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail ends the loop with err.
func (l *loop) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed(err)
}

// failed is fail with the lock held.
func (l *loop) failed(err error) {
	if e, ok := errors.AsType[*annals.Error](err); ok {
		err = e
	}
	l.err = cmp.Or(l.err, err)
	signal(l.ready)
}

// next waits for a delivery.
func (l *loop) next(ctx context.Context) (ability.Delivery, error) {
	for {
		if ctx.Err() != nil {
			return ability.Delivery{}, &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
		}
		h, d, err := l.take()
		switch {
		case err != nil:
			return ability.Delivery{}, err
		case d != nil:
			return ability.Delivery{Events: d.events, Ack: func(ctx context.Context) error { return l.ack(ctx, h, d) }}, nil
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
		case <-l.closing:
			return ability.Delivery{}, errClosed
		}
	}
}

// take takes a delivery that is ready; nil when there is none.
func (l *loop) take() (*held, *delivery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, nil, l.err
	}
	if time.Since(l.renewed) >= l.Lease {
		return nil, nil, nil // others may hold the shards: look first
	}
	for range l.held {
		l.taken = (l.taken + 1) % len(l.held)
		if h := l.held[l.taken]; h.next != nil && !h.lost {
			h.next, h.open = nil, h.next
			return h, h.open, nil
		}
	}
	return nil, nil, nil
}

// run holds shards until ctx ends or the store is closed. Then it frees them.
func (l *loop) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.end(context.WithoutCancel(ctx))
	}()
	var failed failures
	for {
		err := l.lookAt(ctx)
		wait, again := leases.Pace(l.Lease, l.waits), true
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failed = failures{}
		default:
			wait, again = failed.wait(err)
		}
		if !again {
			l.fail(err)
			return
		}
		select {
		case <-time.After(wait):
		case <-l.look:
		case <-l.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lookAt shows a sign of life, reads the view, and then takes and frees shards as the view says.
func (l *loop) lookAt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.Lease, leases.LookTime))
	defer cancel()
	if l.round != 0 {
		beat := member{lease: l.Lease, round: l.round, write: newWrite()}
		if err := l.write(ctx, plan.Write{Ops: []plan.Op{{Table: l.Table, Put: beat.item(l.name, l.id)}}}); err != nil {
			return err
		}
	}
	v, err := load(ctx, l.Executor, l.Table, l.name)
	switch {
	case err != nil:
		return err
	case v.head == nil:
		signal(l.look)
		made, err := l.listShards(ctx)
		if made == nil {
			return err
		}
		return l.begin(ctx, v, made)
	case v.head.filter != filterText(l.filter):
		return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the subscription %s has another one: %w", quote.Text(l.name), errFilter)}
	case l.round == 0: // the sign of life has to come before the first shard
		l.round = v.head.round
		signal(l.look)
		return nil
	}
	l.dropLost(v)
	if l.round != v.head.round {
		l.round = v.head.round
		signal(l.look)
	}
	if listed, err := l.listIfDue(ctx, v); listed || err != nil {
		signal(l.look)
		return err
	}
	// The shards of earlier rounds are deleted: then their owners cannot acknowledge anything.
	if err := l.remove(ctx, v.void); err != nil {
		return err
	}
	return l.hold(ctx, v)
}

func filterText(f annals.Filter) string {
	return fmt.Sprintf("type %q tag %q slices %v", f.Type, f.Tag, f.Slices)
}

// dropLost drops the shards that v says are not this loop's any more. Nothing else takes a shard out of the list: a view that was read before
// the shard was lost would begin it again.
func (l *loop) dropLost(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = time.Now() // not when the look began: on a slow table a look may take longer than the lease
	signal(l.ready)
	l.held = slices.DeleteFunc(l.held, func(h *held) bool {
		i := slices.IndexFunc(v.shards, func(s shard) bool { return s.round == h.round && s.id == h.id })
		if i >= 0 && v.shards[i].owner == l.id {
			return false
		}
		l.list = l.list || i >= 0 && v.shards[i].ended
		h.lost = true
		h.drop()
		return true
	})
}

// end frees all shards and ends the loop.
func (l *loop) end(ctx context.Context) {
	for _, h := range l.held {
		h.drop()
	}
	l.readers.Wait()
	if l.round == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, max(l.Lease, time.Second))
	defer cancel()
	_, _ = l.Executor.Write(ctx, plan.Write{Ops: []plan.Op{{Table: l.Table, Key: key(l.name, itemLoop+l.id), Delete: true}}}) // an error makes others wait for the lease
}
