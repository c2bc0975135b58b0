package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// subscribeCases are about ability.Subscriber.
var subscribeCases = []testCase{
	{id: "SUBSCRIBE-1", about: "every event is delivered, those of each entity in order, and what is acknowledged is not delivered again", needs: needs(events, subscribes), run: subscribed},
	{id: "SUBSCRIBE-2", about: "asking for the next delivery acknowledges nothing", needs: needs(events, subscribes), run: unacknowledged},
	{id: "SUBSCRIBE-3", about: "the next delivery of an entity comes after the acknowledgement of the one before", needs: needs(events, subscribes), run: oneOpenDelivery},
	{id: "SUBSCRIBE-4", about: "loops of one name share the events, and go on for one that ends; names are independent", needs: needs(events, subscribes), run: sharedSubscription},
	{id: "SUBSCRIBE-5", about: "deliveries fit the filter", needs: needs(events, subscribes), run: filteredSubscription},
	{id: "SUBSCRIBE-6", about: "After, Behind, Limit, and a name that is empty or no valid text, are ErrInvalid", needs: needs(subscribes), run: invalidSubscriptions},
	{id: "SUBSCRIBE-7", about: "a loop ends with its context and with the store; then an acknowledgement is refused", needs: needs(events, subscribes), run: subscriptionEnds},
	{id: "SUBSCRIBE-8", about: "an entity that was forgotten and begins again is delivered from its first number", needs: needs(events, subscribes, forgets), run: subscribedAfterForget},
	{id: "SUBSCRIBE-9", about: "the loops of a name have the same filter", needs: needs(events, subscribes), run: subscribedWithAnotherFilter},
}

// consumer is a loop of a subscription that is asked for each delivery.
type consumer struct {
	h    *harness
	next func() (ability.Delivery, error, bool)
	stop func()
}

func (h *harness) subscribe(ctx context.Context, name string, f annals.Filter) *consumer {
	next, stop := iter.Pull2(able[ability.Subscriber](h).Subscribe(ctx, name, f))
	h.Cleanup(stop)
	return &consumer{h, next, stop}
}

// delivery is the next one. The case ends when there is none within half a minute.
func (c *consumer) delivery() ability.Delivery {
	c.h.Helper()
	d, err, ok := c.next()
	if !ok || err != nil || len(d.Events) == 0 || d.Ack == nil {
		c.h.Fatalf("next delivery: got %s, error %v, more %v, want events and Ack", span(d.Events), err, ok)
	}
	return d
}

// patience is how long a delivery may take.
func (h *harness) patience() context.Context {
	ctx, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	h.Cleanup(cancel)
	return ctx
}

// ack acknowledges deliveries.
func (h *harness) ack(all ...ability.Delivery) {
	h.Helper()
	for _, d := range all {
		if err := d.Ack(h.ctx); err != nil {
			h.Fatalf("acknowledge %s: got error %v, want none", span(d.Events), err)
		}
	}
}

// handle takes and acknowledges deliveries until they have n events.
func (c *consumer) handle(n int) (all []ability.Delivery) {
	c.h.Helper()
	for n > 0 {
		d := c.delivery()
		c.h.ack(d)
		all = append(all, d)
		n -= len(d.Events)
	}
	if n < 0 {
		c.h.Errorf("deliveries: got %d events too many", -n)
	}
	return all
}

// wantDelivered checks that deliveries have the events first … last of each entity, in order, as a replay yields them.
func (h *harness) wantDelivered(all []ability.Delivery, first, last annals.SeqNr, ids ...annals.PersistenceID) {
	h.Helper()
	byID := map[annals.PersistenceID][]annals.Event{}
	for _, d := range all {
		for _, e := range d.Events {
			byID[e.ID] = append(byID[e.ID], e)
		}
	}
	for _, id := range ids {
		h.wantOffsets(fmt.Sprintf("deliveries of %q", id), byID[id], h.events(id, first, last))
	}
}

// populated writes n events to each of some entities, one by one.
func (h *harness) populated(entities, n int) (ids []annals.PersistenceID) {
	h.Helper()
	for range entities {
		ids = append(ids, h.id())
	}
	h.more(ids, 0, n)
	return ids
}

// more writes n events after number after to each of ids.
func (h *harness) more(ids []annals.PersistenceID, after annals.SeqNr, n int) {
	h.Helper()
	for i := range n {
		for _, id := range ids {
			h.append(decorate(h.commit(id, after+annals.SeqNr(i), 1)))
		}
	}
}

func subscribed(h *harness) {
	const entities = 12
	ids := h.populated(entities, 5)
	c := h.subscribe(h.patience(), "s", annals.Filter{})
	all := c.handle(5 * entities)
	h.wantDelivered(all, 1, 5, ids...)
	h.ack(all...) // it can be repeated
	writing := make(chan struct{})
	go func() { // the loop waits
		defer close(writing)
		h.more(ids, 5, 2)
	}()
	all = c.handle(2 * entities)
	<-writing
	h.wantDelivered(all, 6, 7, ids...)
	c.stop()
	h.more(ids, 7, 1)
	all = h.subscribe(h.patience(), "s", annals.Filter{}).handle(entities)
	h.wantDelivered(all, 8, 8, ids...)
}

func unacknowledged(h *harness) {
	ids := h.populated(12, 3)
	ctx, cancel := context.WithCancel(h.patience())
	c := h.subscribe(ctx, "s", annals.Filter{})
	c.wantFirst("of a new name")
	time.AfterFunc(soon, cancel)
	for err := error(nil); err == nil; { // the deliveries of other shards, and the wait for more
		_, err, _ = c.next()
	}
	c.stop()
	h.wantDelivered(h.subscribe(h.patience(), "s", annals.Filter{}).handle(36), 1, 3, ids...)
}

// soon is how long a case waits to see that a store does not deliver.
const soon = 100 * time.Millisecond

// wantFirst checks that the next delivery begins with number 1 of an entity. The case ends when it does not.
func (c *consumer) wantFirst(when string) {
	c.h.Helper()
	if e := c.delivery().Events[0]; e.SeqNr != 1 {
		c.h.Fatalf("next delivery %s: got number %d of %q, want 1", when, e.SeqNr, e.ID)
	}
}

func oneOpenDelivery(h *harness) {
	ids := h.populated(1, 1)
	c := h.subscribe(h.patience(), "s", annals.Filter{})
	first := c.delivery()
	h.more(ids, 1, 1)
	var acked atomic.Bool
	time.AfterFunc(soon, func() {
		acked.Store(true)
		if err := first.Ack(h.ctx); err != nil {
			h.Errorf("acknowledge: %v", err)
		}
	})
	second := c.delivery()
	if !acked.Load() {
		h.Errorf("got number %d of %q while number 1 is not acknowledged", second.Events[0].SeqNr, ids[0])
	}
	h.wantDelivered([]ability.Delivery{first}, 1, 1, ids...)
	h.wantDelivered([]ability.Delivery{second}, 2, 2, ids...)
}

func sharedSubscription(h *harness) {
	const loops, entities, each = 2, 16, 6
	ids := h.populated(entities, each)
	h.wantDelivered(h.subscribe(h.patience(), "other", annals.Filter{}).handle(entities*each), 1, each, ids...)
	ctx, cancel := context.WithCancel(h.patience())
	defer cancel()
	var mu sync.Mutex
	seen := map[annals.PersistenceID]annals.SeqNr{} // the highest number
	total := 0
	errs := make([]error, loops)
	all := make(chan struct{})
	var done sync.WaitGroup
	for i := range loops {
		done.Go(func() {
			handled := 0
			for d, err := range able[ability.Subscriber](h).Subscribe(ctx, "s", annals.Filter{}) {
				if err != nil {
					errs[i] = err
					return
				}
				if handled++; i == 0 && handled == 3 {
					return // without an acknowledgement: the other loop gets these again
				}
				mu.Lock()
				for _, e := range d.Events {
					switch was := seen[e.ID]; {
					case e.SeqNr == was+1:
						seen[e.ID]++
						if total++; total == entities*(each+1) {
							close(all)
						}
					case e.SeqNr > was:
						h.Errorf("deliveries of %q: got number %d after %d", e.ID, e.SeqNr, was)
					}
				}
				mu.Unlock()
				if err := d.Ack(ctx); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	h.more(ids, each, 1)
	select {
	case <-all:
	case <-ctx.Done():
	}
	cancel()
	done.Wait()
	if total != entities*(each+1) {
		h.Errorf("%d loops of one name: got %d of %d events", loops, total, entities*(each+1))
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			h.Errorf("a loop of a subscription: got error %v, want the end of its context", err)
		}
	}
}

func filteredSubscription(h *harness) {
	thing, other := h.idOf("Thing"), h.idOf("Other")
	filters := []annals.Filter{{Type: "Thing"}, {Type: "Thing", Slices: annals.SliceRange{From: thing.Slice(), To: thing.Slice() + 1}}}
	if h.caps.TagQueries {
		filters = append(filters, annals.Filter{Tag: "green"})
	}
	for after := range annals.SeqNr(4) {
		for _, id := range []annals.PersistenceID{thing, other} {
			c := h.commit(id, after, 1)
			if h.caps.Tags && id == thing {
				c.Events[0].Tags = []string{"apple", "green"}
			}
			h.append(c)
		}
	}
	for i, f := range filters {
		all := h.subscribe(h.patience(), fmt.Sprintf("s%d", i), f).handle(4)
		h.wantDelivered(all, 1, 4, thing)
		for _, d := range all {
			if slices.ContainsFunc(d.Events, func(e annals.Event) bool { return e.ID != thing }) {
				h.Errorf("deliveries of %+v: got an event of another entity", f)
			}
		}
	}
}

func invalidSubscriptions(h *harness) {
	op := operation{name: "subscribe"}
	refused := func(name string, f annals.Filter) {
		h.Helper()
		_, err, _ := h.subscribe(h.patience(), name, f).next()
		h.wantNamed(err, annals.ErrInvalid, op, fmt.Sprintf("of %q with the filter %+v", name, f))
	}
	for _, name := range []string{"", "a\xff", "a\x00b"} {
		refused(name, annals.Filter{})
	}
	refused("s", annals.Filter{After: annals.Offset{SeqNr: 1}})
	refused("s", annals.Filter{Behind: 1})
	refused("s", annals.Filter{Limit: 1})
	refused("s", annals.Filter{Slices: annals.SliceRange{From: 5, To: 4}})
}

func subscriptionEnds(h *harness) {
	op := operation{name: "subscribe"}
	h.populated(1, 1)
	ctx, cancel := context.WithCancel(h.patience())
	c := h.subscribe(ctx, "s", annals.Filter{})
	open := c.delivery()
	cancel()
	_, err, _ := c.next()
	h.wantNamed(err, annals.ErrUnavailable, op, "whose context ends")
	h.wantKind(err, context.Canceled, "subscribe with an ended context")
	h.wantKind(open.Ack(h.ctx), annals.ErrFenced, "acknowledge when the loop has ended")
	c = h.subscribe(h.patience(), "s", annals.Filter{})
	open = c.delivery()
	ended := make(chan error)
	go func() {
		_, err, _ := c.next()
		ended <- err
	}()
	h.closeWithin("a loop of a subscription that waits")
	select {
	case err := <-ended:
		h.wantNamed(err, annals.ErrClosed, op, "of a store that is closed")
	case <-time.After(stuck):
		h.Fatalf("subscribe of a closed store: got no end within %v", stuck)
	}
	h.wantKind(open.Ack(h.ctx), annals.ErrClosed, "acknowledge when the store is closed")
}

func subscribedAfterForget(h *harness) {
	ids := h.populated(2, 4)
	c := h.subscribe(h.patience(), "s", annals.Filter{})
	c.handle(8)
	for _, n := range []int{2, 6} { // fewer numbers than before, and more
		for _, id := range ids {
			h.empty(id)
			h.wantForgotten(id, 0, true)
		}
		h.more(ids, 0, n)
		h.wantDelivered(c.handle(2*n), 1, annals.SeqNr(n), ids...)
	}
}

func subscribedWithAnotherFilter(h *harness) {
	op := operation{name: "subscribe"}
	id := h.populated(1, 1)[0]
	h.subscribe(h.patience(), "s", annals.Filter{}).delivery()
	for _, f := range []annals.Filter{{Type: id.Type()}, {Slices: annals.SliceRange{From: id.Slice(), To: id.Slice() + 1}}} {
		_, err, _ := h.subscribe(h.patience(), "s", f).next()
		h.wantNamed(err, annals.ErrInvalid, op, fmt.Sprintf("with the filter %+v, when the name has none", f))
	}
}
