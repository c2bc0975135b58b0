package subscription

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// A loop whose shards another loop has taken over cannot acknowledge their deliveries, also when the loop does not know of it.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		stopped, other := w.process(), w.process()
		for _, id := range []annals.PersistenceID{"A|1", "A|2", "A|3", "A|4"} {
			stopped.append(id, 0, 3)
		}
		c := stopped.subscribe(t.Context(), "s", annals.Filter{})
		lost := []ability.Delivery{c.delivery(), c.delivery()} // of two parts of the catch-up
		stopped.pause(20 * lease)
		d := other.subscribe(t.Context(), "s", annals.Filter{})
		d.handle(12)
		for _, l := range lost {
			if err := l.Ack(t.Context()); !errors.Is(err, annals.ErrFenced) {
				t.Errorf("acknowledge %d events of a lost shard: got %v, want ErrFenced", len(l.Events), err)
			}
		}
		c.stop()
		d.stop()
		stopped.Close()
		other.Close()
	})
}

// A loop that could not renew its view for a lease hands out nothing, although it has events in memory: others may have its shards.
func TestOldView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		for _, id := range []annals.PersistenceID{"A|1", "A|2", "A|3", "A|4"} {
			p.append(id, 0, 3)
		}
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		first, err, ok := c.next()
		if err != nil || !ok || len(first.Events) == 12 {
			t.Fatalf("the first delivery has %d events, %v", len(first.Events), err)
		}
		time.Sleep(lease / 10) // more is read
		p.pause(4 * lease)
		goesOn := time.Now().Add(4 * lease)
		time.Sleep(2 * lease)
		if d, err, _ := c.next(); err != nil || time.Now().Before(goesOn) {
			t.Errorf("got %d events %v before the view was renewed, %v", len(d.Events), time.Until(goesOn), err)
		}
		c.stop()
		p.Close()
	})
}

// A loop waits for a delivery, is stopped, and reads the next event when it goes on. Meanwhile another loop has the shard, and has acknowledged that
// event. So the first one does not hand it out when it has renewed its view.
func TestOldDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		stopped, other := w.process(), w.process()
		defer stopped.Close()
		defer other.Close()
		stopped.append("A|1", 0, 1)
		c := stopped.subscribe(t.Context(), "s", annals.Filter{})
		defer c.stop()
		c.handle(1)
		time.AfterFunc(3*lease, func() {
			stopped.pause(20 * lease)
			d := other.subscribe(t.Context(), "s", annals.Filter{})
			other.append("A|1", 1, 1)
			d.handle(1)
			time.Sleep(20 * lease)
			d.stop()
			other.append("A|1", 2, 1)
		})
		if e := c.delivery().Events[0]; e.SeqNr != 3 {
			t.Errorf("got number %d, which another loop has acknowledged", e.SeqNr)
		}
	})
}

// heldBack keeps the acknowledgement of number 2 of an entity back, as a slow network does.
type heldBack struct {
	plan.Executor
	until chan struct{}
}

func (h heldBack) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if len(w.Ops) > 1 && plan.KeyText(w.Ops[1].Put[attrSeq]) == "2" {
		<-h.until
		ctx = context.WithoutCancel(ctx)
	}
	return h.Executor.Write(ctx, w)
}

// An acknowledgement arrives when its loop has lost the shard to another loop, and has the shard again. It changes nothing: what the other loop has
// acknowledged meanwhile is not delivered again.
func TestLateAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p, other := w.process(), w.process()
		defer p.Close()
		defer other.Close()
		back := heldBack{p.Subscriptions.Executor, make(chan struct{})}
		p.Subscriptions.Executor = back
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		p.append("A|1", 0, 1)
		c.handle(1)
		time.Sleep(3 * lease) // the position in the shard is stored
		p.append("A|1", 1, 1)
		late := c.delivery()
		acked := make(chan error)
		go func() { acked <- late.Ack(t.Context()) }()
		p.pause(10 * lease)
		d := other.subscribe(t.Context(), "s", annals.Filter{})
		d.handle(1)
		other.append("A|1", 2, 1)
		d.handle(1)
		d.stop()
		time.Sleep(20 * lease) // p can take the shard
		close(back.until)
		if err := <-acked; !errors.Is(err, annals.ErrFenced) {
			t.Errorf("acknowledge after the shard was lost: got %v, want ErrFenced", err)
		}
		c.stop()
		other.append("A|1", 3, 1)
		ctx, cancel := context.WithCancel(t.Context())
		c = other.subscribe(ctx, "s", annals.Filter{})
		defer c.stop()
		if e := c.delivery().Events[0]; e.SeqNr != 4 {
			t.Errorf("got number %d of %s, which was acknowledged", e.SeqNr, e.ID)
		}
		cancel()
	})
}

// unanswered never answers an acknowledgement.
type unanswered struct{ plan.Executor }

func (u unanswered) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if len(w.Ops) > 1 && w.Ops[1].Put[attrSeq] != nil {
		<-ctx.Done()
		return plan.Outcome{}, &annals.Error{Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
	return u.Executor.Write(ctx, w)
}

// The end of a loop waits for the answer to an acknowledgement, but not for ever. Then the acknowledgement is ErrUnknown, and ErrFenced when it is
// repeated.
func TestLoopEndsDuringAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t, 1).process()
		defer p.Close()
		p.Subscriptions.Executor = unanswered{p.Subscriptions.Executor}
		p.append("A|1", 0, 1)
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		d := c.delivery()
		acked := make(chan error)
		go func() { acked <- d.Ack(t.Context()) }()
		synctest.Wait()
		go c.stop()
		select {
		case err := <-acked:
			if !errors.Is(err, annals.ErrUnknown) {
				t.Errorf("acknowledge without an answer: got %v, want ErrUnknown", err)
			}
		case <-time.After(2 * lease):
			t.Fatal("the loop has not ended after two leases")
		}
		if err := d.Ack(t.Context()); !errors.Is(err, annals.ErrFenced) {
			t.Errorf("acknowledge when the loop has ended: got %v, want ErrFenced", err)
		}
	})
}

// When the answer to an acknowledgement is lost, the acknowledgement can be repeated: the loop still has the shard.
func TestAcknowledgementWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t, 1).process()
		defer p.Close()
		lost := false
		p.fault = func(w plan.Write) (before, after error) {
			if len(w.Ops) > 1 && w.Ops[1].Put[attrSeq] != nil && !lost {
				lost = true
				return nil, &annals.Error{Kind: annals.ErrUnknown}
			}
			return nil, nil
		}
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		defer c.stop()
		p.append("A|1", 0, 1)
		d := c.delivery()
		if err := d.Ack(t.Context()); !errors.Is(err, annals.ErrUnknown) {
			t.Errorf("acknowledge without an answer: got %v", err)
		}
		c.ack(d)
	})
}
