package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// damage replaces the commit of id that begins with the number n by one with an attribute that cannot be read, and returns what puts it right again.
func (w *world) damage(id annals.PersistenceID, n annals.SeqNr, attribute string) (repair func()) {
	w.Helper()
	key := plan.Item{"pid": plan.S(string(id)), "seq": plan.N(n)}
	put := func(it plan.Item) {
		changed := w.tables.Changed
		w.tables.Changed = nil // the stream has the item as it was
		_, err := w.tables.Write(w.Context(), plan.Write{Ops: []plan.Op{{Table: w.offer.Feed.Table, Put: it}}})
		w.tables.Changed = changed
		if err != nil {
			w.Fatal(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	it, ok, err := w.tables.Get(w.Context(), plan.Get{Table: w.offer.Feed.Table, Key: key})
	if err != nil || !ok {
		w.Fatalf("no item %s %d, %v", id, n, err)
	}
	damaged := maps.Clone(it)
	damaged[attribute] = plan.S("damaged")
	put(damaged)
	for _, sh := range w.stream.shards {
		for i, rec := range sh.records {
			if plan.KeyText(rec.Image["pid"]) == string(id) && plan.KeyText(rec.Image["seq"]) == fmt.Sprint(n) {
				sh.records[i].Image = damaged
			}
		}
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		put(it)
	}
}

func (p *process) wantParked(want string) {
	p.w.Helper()
	parked, err := p.Parked(p.w.Context(), "s")
	got := ""
	for _, x := range parked {
		got += fmt.Sprintf("%s from %d ", x.ID, x.From)
		if x.Error == "" || x.Since.IsZero() {
			p.w.Errorf("parked: %v", x)
		}
	}
	if err != nil || got != want {
		p.w.Errorf("parked: %q, %v, want %q", got, err, want)
	}
}

// An item that cannot be read parks its entity, and others go on. When the item is put right, a retry or the next event of the entity delivers
// what waits, in order. This is so whether the item was found in the table or in the stream.
func TestParked(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		for attribute, retry := range map[string]bool{"ev": true, "at": false} {
			t.Run(fmt.Sprintf("written before %v, damaged %s, retry %v", before, attribute, retry), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1)
					p := w.process()
					defer p.Close()
					subscribe := func(want ...string) {
						t.Helper()
						ctx, cancel := context.WithTimeout(t.Context(), 10*lease)
						defer cancel()
						c := p.subscribe(ctx, "s", annals.Filter{})
						defer c.stop()
						got := map[annals.PersistenceID]string{}
						for {
							d, err, _ := c.next()
							if err != nil {
								if !errors.Is(err, context.DeadlineExceeded) {
									t.Error(err)
								}
								break
							}
							for _, e := range d.Events {
								got[e.ID] += fmt.Sprint(e.SeqNr, " ")
							}
							c.ack(d)
						}
						for i, id := range []annals.PersistenceID{"A|1", "A|2"} {
							if got[id] != want[i] {
								t.Errorf("%s: delivered %q, want %q", id, got[id], want[i])
							}
						}
					}
					if !before {
						subscribe("", "")
					}
					p.append("A|1", 0, 2)
					p.append("A|1", 2, 1)
					p.append("A|2", 0, 1)
					repair := w.damage("A|1", 3, attribute)
					p.append("A|1", 3, 1)
					subscribe("1 2 ", "1 ")
					p.wantParked("A|1 from 3 ")
					p.append("A|1", 4, 1)
					p.append("A|2", 1, 1)
					subscribe("", "2 ")
					p.wantParked("A|1 from 3 ")
					if err := p.Retry(t.Context(), "s"); err != nil {
						t.Error(err)
					}
					subscribe("", "")
					p.wantParked("A|1 from 3 ")
					repair()
					if !retry {
						p.append("A|1", 5, 1)
						subscribe("3 4 5 6 ", "")
					} else {
						if err := p.Retry(t.Context(), "s"); err != nil {
							t.Error(err)
						}
						p.wantParked("")
						subscribe("3 4 5 ", "")
					}
					p.wantParked("")
				})
			})
		}
	}
}

// The events of a parked entity that waited do not have the tag of the filter, so none is delivered when they can be read again. The entity is not
// listed any more then, whether the loop that parked it goes on or another one begins.
func TestParkedWithoutTheTag(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			p := w.process()
			defer p.Close()
			p.append("A|1", 0, 1)
			p.append("A|1", 1, 1)
			repair, waits := w.damage("A|1", 2, "ev"), ""
			steps := []func(){
				func() {},
				func() { p.append("A|1", 2, 1) },
				func() { repair(); p.append("A|1", 3, 1) },
			}
			subscribe := func(steps ...func()) {
				ctx, cancel := context.WithCancel(t.Context())
				c := p.subscribe(ctx, "s", annals.Filter{Tag: "none has it"})
				defer c.stop()
				go func() {
					for _, step := range steps {
						p.wantParked(waits)
						step()
						time.Sleep(10 * lease)
						waits = "A|1 from 2 "
					}
					cancel()
				}()
				if d, err, _ := c.next(); err == nil {
					t.Errorf("delivered %v", d.Events)
				}
			}
			if again {
				for _, step := range steps {
					subscribe(step)
				}
			} else {
				subscribe(steps...)
			}
			p.wantParked("")
		})
	}
}

// Too many parked entities have one cause, and end the loop.
func TestTooManyParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		for n := range maxParked {
			item := Parked{ID: annals.NewPersistenceID("A", fmt.Sprint(n)), From: 1, Since: time.Now()}.item("s")
			if _, err := w.tables.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: subscriptions, Put: item}}}); err != nil {
				t.Fatal(err)
			}
		}
		p.append("B|1", 0, 1)
		w.damage("B|1", 1, "at")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := p.subscribe(ctx, "s", annals.Filter{})
		defer c.stop()
		if _, err, _ := c.next(); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("got %v, want ErrCorrupt", err)
		}
	})
}

// Deletes while an entity is read are ErrTruncated, and pass. When the error lasts, it does not hold up others.
func TestTruncatedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		p.append("A|1", 0, 1)
		p.append("A|2", 0, 1)
		p.Subscriptions.Journal = truncating{p.Subscriptions.Journal}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := p.subscribe(ctx, "s", annals.Filter{})
		defer c.stop()
		c.handle(1)       // A|2
		d := c.delivery() // the stream has the event of A|1
		p.wantParked("A|1 from 1 ")
		c.ack(d)
		p.wantParked("")
	})
}

// truncating cannot read an entity.
type truncating struct{ annals.Journal }

func (j truncating) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if id != "A|1" {
		return j.Journal.Replay(ctx, id, from, to)
	}
	return func(yield func(annals.Event, error) bool) {
		yield(annals.Event{}, &annals.Error{Kind: annals.ErrTruncated})
	}
}

// Nobody has subscribed under the name.
func TestParkedOfNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t, 1).process()
		p.wantParked("")
		if err := p.Retry(t.Context(), "s"); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
	})
}

// A retry whose context ends while others write the head is ErrUnavailable, as each call is.
func TestRetryEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t, 1).process()
		defer p.Close()
		p.append("A|1", 0, 1)
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		c.handle(1)
		c.stop()
		p.fault = func(plan.Write) (before, after error) { return &annals.Error{Kind: annals.ErrConflict}, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Retry(ctx, "s"); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
}

// Deletes while an entity is read pass. An entity is not parked because of many of them if the shard goes on in between.
func TestTruncatedAtTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		p.Subscriptions.Journal = truncatingAtTimes{p.Subscriptions.Journal, map[annals.SeqNr]bool{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := p.subscribe(ctx, "s", annals.Filter{})
		defer c.stop()
		for n := range annals.SeqNr(2 * maxTruncated) {
			p.append("A|1", n, 1)
			w.damage("A|1", n+1, "ev")() // in the stream, so that the loop has to ask the journal
			c.handle(1)
			p.wantParked("")
		}
	})
}

// truncatingAtTimes cannot read an entity when it is asked for the first time from a number on.
type truncatingAtTimes struct {
	annals.Journal
	asked map[annals.SeqNr]bool
}

func (j truncatingAtTimes) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if !j.asked[from] {
		j.asked[from] = true
		return truncating{}.Replay(ctx, "A|1", from, to)
	}
	return j.Journal.Replay(ctx, id, from, to)
}

// An entity was forgotten and begins again with an item that cannot be read. It is parked from number 1, whatever was acknowledged before, and
// its new events are delivered when the item has been put right.
func TestParkedInAnotherLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		p.append("A|1", 0, 2)
		c.handle(2)
		c.stop()
		if err := p.DeleteAll(t.Context(), w.offer.Feed.Table, []plan.Item{{"pid": plan.S("A|1"), "seq": plan.N(1)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.append("A|1", 0, 1)
		repair := w.damage("A|1", 1, "ev")
		p.append("A|1", 1, 1)
		p.idle("s", 10*lease)
		p.wantParked("A|1 from 1 ")
		repair()
		p.append("A|1", 2, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*lease)
		defer cancel()
		c = p.subscribe(ctx, "s", annals.Filter{})
		defer c.stop()
		c.handle(3)
		p.wantParked("")
	})
}
