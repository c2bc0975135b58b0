package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// idle waits until ctx has ended and nothing was delivered.
func (p *process) idle(name string, d time.Duration) {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.w.Context(), d)
	defer cancel()
	c := p.subscribe(ctx, name, annals.Filter{})
	defer c.stop()
	if delivery, err, _ := c.next(); !errors.Is(err, context.DeadlineExceeded) {
		p.w.Errorf("got %v, %v, want no delivery", delivery.Events, err)
	}
}

// A round in which nothing is new asks for no events: the scan tells the number and the time of each entity's last event.
func TestCatchUpWithNothingNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ids = 500
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		for n := range ids {
			p.append(annals.NewPersistenceID("A", fmt.Sprint(n)), 0, 2)
		}
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		c.handle(2 * ids)
		c.stop()
		first := p.counted()
		time.Sleep(25 * time.Hour)
		p.idle("s", time.Minute)
		again := p.counted()
		t.Logf("first round: %v, second round: %v", first, again)
		if first["scans"] != parts*pieces || again["scans"] != parts*pieces || again["queries"] != 0 || again["marks"] > parts*pieces {
			t.Errorf("in a round without new events: %v", again)
		}
	})
}

// A catch-up that is interrupted goes on where its deliveries were acknowledged.
func TestCatchUpGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ids = 2000
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		for n := range ids {
			p.append(annals.NewPersistenceID("A", fmt.Sprint(n)), 0, 1)
		}
		c, got := p.subscribe(t.Context(), "s", annals.Filter{}), 0
		for got < ids/2 {
			d, err, _ := c.next()
			if err != nil {
				t.Fatal(err)
			}
			got += len(d.Events)
			c.ack(d)
		}
		c.stop()
		p.counted()
		c = p.subscribe(t.Context(), "s", annals.Filter{})
		c.handle(ids - got)
		c.stop()
		if counts := p.counted(); counts["scans"] > parts*pieces*2/3 || counts["queries"] > 2*(ids-got) {
			t.Errorf("after half of the table: %v", counts)
		}
	})
}

// What the service refuses for some minutes does not end a loop, what it refuses for longer does.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		refused time.Duration
		ends    bool
	}{"some minutes": {patience - time.Minute, false}, "longer": {patience + time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				p, writer := w.process(), w.process()
				defer p.Close()
				writer.append("A|1", 0, 1)
				c := p.subscribe(t.Context(), "s", annals.Filter{})
				defer c.stop()
				c.handle(1)
				wrong := &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("the signature is not valid")}
				p.refuse(wrong)
				time.AfterFunc(is.refused, func() { p.refuse(nil) })
				writer.append("A|1", 1, 1)
				d, err, _ := c.next()
				if is.ends != errors.Is(err, annals.ErrInvalid) || !is.ends && len(d.Events) != 1 {
					t.Errorf("got %d events, %v", len(d.Events), err)
				}
			})
		})
	}
}

// An entity that was removed and has as many events again is delivered anew.
func TestCatchUpOfAnotherLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		for range 2 {
			p.append("A|1", 0, 2)
			w.stream.trim(0)
			c := p.subscribe(t.Context(), "s", annals.Filter{})
			c.handle(2)
			c.stop()
			if err := p.DeleteAll(t.Context(), w.offer.Feed.Table, []plan.Item{{"pid": plan.S("A|1"), "seq": plan.N(1)}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Hour)
		}
	})
}

// Where a scan counts events, the count of an entity with unused numbers may be the number of an event that is not the last one.
func TestCatchUpWithUnusedNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t, 1).process()
		defer p.Close()
		j := numbersOnly{1, 2, 4}
		p.Subscriptions.Journal = &j
		p.Feed = &plan.Feed{Counts: true, Scan: func(_ context.Context, _ plan.Executor, part plan.Part) iter.Seq2[plan.Found, error] {
			return func(yield func(plan.Found, error) bool) {
				if part.N == 0 {
					yield(plan.Found{ID: "A|1", Last: annals.SeqNr(len(j))}, nil)
				}
			}
		}}
		for _, n := range []int{3, 1} {
			c := p.subscribe(t.Context(), "s", annals.Filter{})
			c.handle(n)
			c.stop()
			j = append(j, 5)
			time.Sleep(25 * time.Hour)
		}
	})
}

// numbersOnly is a journal of one entity, which has events with these numbers.
type numbersOnly []annals.SeqNr

func (numbersOnly) Append(context.Context, annals.Commit) (annals.Receipt, error) {
	return annals.Receipt{}, errors.ErrUnsupported
}
func (numbersOnly) DeleteTo(context.Context, annals.PersistenceID, annals.SeqNr) error { return nil }
func (j numbersOnly) LastSeqNr(context.Context, annals.PersistenceID) (annals.SeqNr, error) {
	return j[len(j)-1], nil
}

func (j numbersOnly) Replay(_ context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for _, n := range j {
			if from <= n && n <= to && !yield(annals.Event{ID: id, SeqNr: n}, nil) {
				return
			}
		}
	}
}

// A list that is complete only hours after it was begun may lack shards.
func TestOldList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		v, made := view{head: &head{listed: begun, stream: "s"}}, &listing{at: begun.Add(19 * time.Hour), name: "s"}
		time.Sleep(19 * time.Hour)
		if v.lost(made) {
			t.Error("records are lost after 19 hours")
		}
		time.Sleep(6 * time.Hour)
		if !v.lost(made) {
			t.Error("no records are lost after 25 hours")
		}
	})
}
