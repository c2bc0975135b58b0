package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// last is the number of the last event of id.
func (p *process) last(id annals.PersistenceID) annals.SeqNr {
	n, err := p.LastSeqNr(p.w.Context(), id)
	if err != nil {
		p.w.Fatal(err)
	}
	return n
}

// A lost item of a subscription makes it deliver events again, or is ErrCorrupt. No event is left out. Some items are lost while the catch-up goes on,
// some after it, and some when shards have ended.
func TestLostItems(t *testing.T) {
	t.Parallel()
	ids := make([]annals.PersistenceID, 16)
	for i := range ids {
		ids[i] = annals.PersistenceID(fmt.Sprint("A|", i))
	}
	for name, prepare := range map[string]func(w *world, p *process, c *consumer){
		"during the catch-up": func(_ *world, _ *process, c *consumer) { c.ack(c.delivery()) },
		"after the catch-up":  func(_ *world, _ *process, c *consumer) { c.handle(len(ids)) },
		"with shards": func(w *world, p *process, c *consumer) {
			c.handle(len(ids))
			for _, id := range ids[:4] {
				p.append(id, 1, 1)
			}
			c.handle(4)
			w.stream.split()
			time.Sleep(3 * lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := 0; ; i++ {
				more := false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1)
					p := w.process()
					handled := map[annals.PersistenceID]annals.SeqNr{}
					note := func(d ability.Delivery) {
						for _, e := range d.Events {
							handled[e.ID] = max(handled[e.ID], e.SeqNr)
						}
					}
					for _, id := range ids {
						p.append(id, 0, 1)
					}
					w.stream.trim(0) // only the catch-up finds these events
					c := p.subscribe(t.Context(), "s", annals.Filter{})
					next := c.next
					c.next = func() (ability.Delivery, error, bool) {
						d, err, ok := next()
						note(d)
						return d, err, ok
					}
					prepare(w, p, c)
					c.stop()
					p.Close()
					items := w.tables.Items(subscriptions)
					if more = i < len(items); !more {
						return
					}
					lost, changed := items[i], w.tables.Changed
					w.tables = w.tables.Without(subscriptions, i)
					w.tables.Changed = changed
					p = w.process()
					defer p.Close()
					for _, id := range ids[:len(ids)/2] { // the others have no event that makes the loop look at them
						p.append(id, p.last(id), 1)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 60*lease)
					defer cancel()
					for d, err := range p.Subscribe(ctx, "s", annals.Filter{}) {
						if errors.Is(err, annals.ErrCorrupt) {
							return
						}
						if err != nil {
							break
						}
						note(d)
						if err := d.Ack(ctx); err != nil {
							t.Error(err)
						}
						if !slices.ContainsFunc(ids, func(id annals.PersistenceID) bool { return handled[id] < p.last(id) }) {
							break
						}
					}
					for _, id := range ids {
						if n := p.last(id); handled[id] < n {
							t.Errorf("without item %s: events of %s to %d of %d are delivered", plan.KeyText(lost[attrItem]), id, handled[id], n)
						}
					}
				})
				if !more {
					return
				}
			}
		})
	}
}
