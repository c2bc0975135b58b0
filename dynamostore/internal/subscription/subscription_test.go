package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/leases"
)

// consumer is a loop that is asked for each delivery.
type consumer struct {
	testing.TB
	next func() (ability.Delivery, error, bool)
	stop func()
}

func (p *process) subscribe(ctx context.Context, name string, f annals.Filter) *consumer {
	next, stop := iter.Pull2(p.Subscribe(ctx, name, f))
	return &consumer{p.w, next, stop}
}

// handle takes and acknowledges deliveries until they have n events.
func (c *consumer) handle(n int) {
	c.Helper()
	for n > 0 {
		d := c.delivery()
		c.ack(d)
		n -= len(d.Events)
	}
	if n < 0 {
		c.Errorf("%d events too many", -n)
	}
}

func (c *consumer) delivery() ability.Delivery {
	c.Helper()
	d, err, ok := c.next()
	if !ok || err != nil {
		c.Fatalf("next delivery: %v, %v", err, ok)
	}
	return d
}

func (c *consumer) ack(d ability.Delivery) {
	c.Helper()
	if err := d.Ack(c.Context()); err != nil {
		c.Error(err)
	}
}

// wantNone checks that nothing is delivered within some leases.
func (c *consumer) wantNone(ctx context.Context, cancel func()) {
	c.Helper()
	time.AfterFunc(5*lease, cancel)
	if d, err, _ := c.next(); !errors.Is(err, ctx.Err()) || err == nil {
		c.Errorf("got %v, %v, want no delivery", d.Events, err)
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		for _, id := range []annals.PersistenceID{"A|1", "A|2", "A|3", "A|4"} {
			p.append(id, 0, 2)
			p.append(id, 2, 1)
		}
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		c.handle(12)
		w.stream.split()
		p.append("A|1", 3, 3)
		w.stream.split()
		p.append("A|2", 3, 3)
		c.handle(6)
		c.stop()
		p.append("A|3", 3, 1)
		ctx, cancel := context.WithCancel(t.Context())
		c = p.subscribe(ctx, "s", annals.Filter{})
		c.handle(1)
		c.wantNone(ctx, cancel)
		c.stop()
		p.Close()
	})
}

// The stream has so many shards that their list takes longer than a look, and longer than the lease. The list is made in several looks, and
// meanwhile the loop shows signs of life.
func TestLongList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for range 60 {
			w.stream.split()
		}
		begun := time.Now()
		p, other := w.process(), w.process()
		p.slow(leases.LookTime / 10)
		p.append("A|1", 0, 3)
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		open := c.delivery()
		if time.Since(begun) < leases.LookTime {
			t.Errorf("the first list took %v", time.Since(begun))
		}
		time.Sleep(2 * lease) // p makes the next list
		ctx, cancel := context.WithCancel(t.Context())
		d := other.subscribe(ctx, "s", annals.Filter{})
		d.wantNone(ctx, cancel)
		c.ack(open)
		c.stop()
		d.stop()
		p.Close()
		other.Close()
	})
}

// While a loop makes a list, the table gets another stream. The list begins again, with that stream.
func TestAnotherStreamInALongList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for range 60 {
			w.stream.split()
		}
		p := w.process()
		defer p.Close()
		p.slow(leases.LookTime / 10)
		p.append("A|1", 0, 3)
		time.AfterFunc(lease, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stream.name = "another stream"
		})
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		defer c.stop()
		c.handle(3)
	})
}

// A lease can be of any length.
func TestLongLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		p.Lease = 100 * 24 * time.Hour
		p.append("A|1", 0, 3)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*p.Lease)
			c := p.subscribe(ctx, "s", annals.Filter{})
			_, err, _ := c.next()
			if err != nil {
				t.Error(err)
			}
			c.stop()
			cancel()
		}
	})
}

// While a loop makes a list, another loop stores new shards, which the pages before do not have. They are not taken for shards that the stream
// has removed: then a new round would begin.
func TestListsOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for range 60 {
			w.stream.split()
		}
		ctx, cancel := context.WithCancel(t.Context())
		p, other := w.process(), w.process()
		p.append("A|1", 0, 3)
		c, d := p.subscribe(ctx, "s", annals.Filter{}), other.subscribe(ctx, "s", annals.Filter{})
		c.handle(3)
		p.slow(leases.LookTime / 10)
		var waits sync.WaitGroup
		for _, idle := range []*consumer{c, d} {
			waits.Go(func() { _, _, _ = idle.next() })
		}
		for range 30 {
			w.stream.split()
			time.Sleep(lease)
		}
		v, err := load(ctx, p, subscriptions, "s")
		if err != nil || v.head.round != 1 {
			t.Errorf("round %d, %v", v.head.round, err)
		}
		cancel()
		waits.Wait()
		c.stop()
		d.stop()
		p.Close()
		other.Close()
	})
}

// The name of a subscription may look like the place of another one's marks.
func TestSimilarNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		id := annals.PersistenceID("A|1")
		p.append(id, 0, 2)
		for _, name := range []string{"s", fmt.Sprintf("s#%d", id.Slice()), "s#", fmt.Sprintf("s##%d", id.Slice())} {
			c := p.subscribe(t.Context(), name, annals.Filter{})
			c.handle(2)
			c.stop()
		}
		p.Close()
	})
}

// The next delivery of a shard comes when the one before is acknowledged, also when the shard ends in between.
func TestOpenDelivery(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fakeStream){"one shard": func(*fakeStream) {}, "the shard after": (*fakeStream).roll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				p := w.process()
				p.append("A|1", 0, 1)
				c := p.subscribe(t.Context(), "s", annals.Filter{})
				c.handle(1)
				p.append("A|1", 1, 1)
				open := c.delivery()
				change(w.stream)
				p.append("A|1", 2, 1)
				due := time.Now().Add(5 * lease)
				time.AfterFunc(5*lease, func() { c.ack(open) })
				if d := c.delivery(); time.Now().Before(due) || d.Events[0].SeqNr != 3 {
					t.Errorf("the next delivery came %v before the one before was acknowledged, with number %d", time.Until(due), d.Events[0].SeqNr)
				}
				c.stop()
				p.Close()
			})
		})
	}
}

// Nobody holds a shard of a new round while a loop may hand out events of the round before.
func TestRoundBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p, q := w.process(), w.process()
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		run := func(p *process) *loop {
			l, err := p.join(ctx, "s", annals.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			waits.Go(func() {
				defer l.leave()
				for {
					d, err := l.next(ctx)
					if err != nil {
						return
					}
					_ = d.Ack(ctx) // p's may be fenced
				}
			})
			return l
		}
		before := run(p)
		run(q)
		write := func(after annals.SeqNr) {
			for n := range 40 {
				q.append(annals.NewPersistenceID("A", fmt.Sprint(n)), after, 1)
			}
		}
		write(0)
		time.Sleep(5 * lease) // each of them holds one shard, and has read records
		p.pause(20 * lease)
		write(1)
		w.stream.trim(0) // q begins round 2
		for held := false; !held; {
			time.Sleep(lease / 50)
			v, err := load(t.Context(), q, subscriptions, "s")
			if err != nil {
				t.Fatal(err)
			}
			before.mu.Lock()
			age := time.Since(before.renewed)
			before.mu.Unlock()
			held = v.head.round == 2 && slices.ContainsFunc(v.shards, func(s shard) bool { return s.owner != "" })
			if held && age < lease {
				t.Errorf("a shard of round 2 is held %v after the loop of round 1 renewed its view", age)
			}
		}
		cancel()
		waits.Wait()
	})
}

// The stream has removed records that were not read: the events are read from the journal.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"records after the last one that was read": time.Minute, "any records": 25 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				p := w.process()
				ids := []annals.PersistenceID{"A|1", "A|2", "A|3", "A|4"}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Hour)
				defer cancel()
				c := p.subscribe(ctx, "s", annals.Filter{})
				for _, id := range ids {
					p.append(id, 0, 1)
				}
				c.handle(4)
				time.Sleep(3 * lease) // the positions in the shards are stored
				c.stop()
				for _, id := range ids {
					p.append(id, 1, 1)
				}
				time.Sleep(away)
				w.stream.trim(0)
				c = p.subscribe(ctx, "s", annals.Filter{})
				c.handle(4)
				c.stop()
				p.Close()
			})
		})
	}
}

// A shard has been read to its end, and then the subscription is down for most of a day. The shards after it are listed late, and are read only
// when their oldest records are a day old and have been removed. The events of these records are read from the journal.
func TestTrimmedBeforeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		subscribe := func(events int, d time.Duration) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			c := p.subscribe(ctx, "s", annals.Filter{})
			c.handle(events)
			time.AfterFunc(d, cancel)
			if _, err, _ := c.next(); !errors.Is(err, ctx.Err()) {
				t.Error(err)
			}
			c.stop()
		}
		p.append("A|1", 0, 1)
		subscribe(1, 3*lease)
		p.fail(false, true)
		w.stream.roll()
		subscribe(0, 3*lease)
		p.append("A|1", 1, 1)
		p.append("A|2", 0, 1)
		time.Sleep(19 * time.Hour)
		p.fail(true, false)
		subscribe(0, 3*lease)
		time.Sleep(6 * time.Hour)
		p.fail(false, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := p.subscribe(ctx, "s", annals.Filter{})
		defer p.Close()
		defer c.stop()
		c.handle(2)
	})
}

// An entity was forgotten and begins again, and the stream has the first records of its new life in any order. All of them are delivered, in the
// end from number 1 on.
func TestAnotherLifeInAnotherOrder(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const id = "A|1"
				w := newWorld(t, 1)
				p := w.process()
				defer p.Close()
				p.append(id, 0, 2)
				c := p.subscribe(t.Context(), "s", annals.Filter{})
				c.handle(2)
				c.stop()
				if err := p.DeleteAll(t.Context(), w.offer.Feed.Table, []plan.Item{{"pid": plan.S(id), "seq": plan.N(1)}}); err != nil {
					t.Fatal(err)
				}
				for n := range annals.SeqNr(len(order)) {
					time.Sleep(time.Second)
					p.append(id, n, 1)
				}
				for _, sh := range w.stream.shards {
					if n := len(sh.records) - len(order); n > 0 {
						written := slices.Clone(sh.records[n:])
						for i, from := range order {
							sh.records[n+i] = written[from]
						}
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*lease)
				defer cancel()
				var got []annals.SeqNr
				for d, err := range p.Subscribe(ctx, "s", annals.Filter{}) {
					if err != nil {
						break
					}
					for _, e := range d.Events {
						got = append(got, e.SeqNr)
					}
					c.ack(d)
				}
				if want := []annals.SeqNr{1, 2, 3}; len(got) < 3 || !slices.Equal(got[len(got)-3:], want) {
					t.Errorf("delivered %v, want %v at the end", got, want)
				}
			})
		})
	}
}
