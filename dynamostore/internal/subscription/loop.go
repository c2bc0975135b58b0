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
	name    string
	filter  annals.Filter
	id      string
	stop    context.CancelFunc
	left    chan struct{}  // closed when the shards are free
	offers  chan *delivery // of the readers, each of which has one at a time
	changed chan struct{}  // has a value when the view was renewed, or the loop has failed
	look    chan struct{}  // has a value when the table is to be looked at now
	taken   *delivery      // from offers by the caller's goroutine, and not handed out yet

	// These are of the goroutine that holds the shards.
	watch  leases.Watch[string]
	held   []*reader
	round  int64 // that is held; 0 is none
	waits  bool  // for shards that others hand over
	list   bool  // a shard has ended, so others may follow
	listed struct {
		write string // of the head, when the shards of the stream were last known to be listed
		at    time.Time
	}
	listing *listing // that is not complete; nil is none

	mu      sync.Mutex // of the fields below
	renewed time.Time  // when the view was read last
	err     error      // that ends the loop
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
	if e, ok := errors.AsType[*annals.Error](err); ok {
		err = e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = cmp.Or(l.err, err)
	signal(l.changed)
}

// next waits for a delivery.
func (l *loop) next(ctx context.Context) (ability.Delivery, error) {
	for {
		l.mu.Lock()
		err, current := l.err, time.Since(l.renewed) < l.Lease
		l.mu.Unlock()
		if l.taken != nil && l.taken.shard.holding.Err() != nil {
			l.taken = nil
		}
		d, offers := l.taken, l.offers
		switch {
		case ctx.Err() != nil:
			return ability.Delivery{}, &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
		case err != nil:
			return ability.Delivery{}, err
		case !current:
			offers = nil // others may hold the shards: look first
		case d != nil:
			l.taken = nil
			return ability.Delivery{Events: d.events, Ack: d.ack}, nil
		}
		select {
		case l.taken = <-offers:
		case <-l.changed:
		case <-ctx.Done():
		case <-l.closing:
			return ability.Delivery{}, errClosed
		}
	}
}

// run holds shards until ctx ends or the store is closed. Then it frees them.
func (l *loop) run(ctx context.Context) {
	defer l.end(context.WithoutCancel(ctx))
	var failed failures
	for {
		err := l.lookAt(ctx)
		wait, again := failed.wait(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = leases.Pace(l.Lease, l.waits)
		case !again:
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
	l.held = slices.DeleteFunc(l.held, func(r *reader) bool { // now: with a view that is older than the end of r, r would begin again
		select {
		case <-r.returned:
			l.list = l.list || r.shard.ended
			return true
		default:
			return false
		}
	})
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
	}
	l.dropLost(v)
	if l.round != v.head.round { // the next sign of life says so, before the first shard is held
		l.round = v.head.round
		signal(l.look)
		return nil
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

// dropLost drops the shards that v says are not this loop's any more.
func (l *loop) dropLost(v view) {
	for _, r := range l.held {
		if !slices.ContainsFunc(v.shards, func(s shard) bool { return s.round == r.shard.round && s.id == r.shard.id && s.owner == l.id }) {
			r.drop()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = time.Now() // not when the look began: on a slow table a look may take longer than the lease
	signal(l.changed)
}

// end frees all shards and ends the loop.
func (l *loop) end(ctx context.Context) {
	for _, r := range l.held {
		r.drop()
	}
	for _, r := range l.held {
		<-r.returned
	}
	if l.round == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.last())
	defer cancel()
	_, _ = l.Executor.Write(ctx, plan.Write{Ops: []plan.Op{{Table: l.Table, Key: key(l.name, itemLoop+l.id), Delete: true}}}) // an error makes others wait for the lease
}
