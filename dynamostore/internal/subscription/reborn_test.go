package subscription

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// An entity is forgotten and begins again with events that do not have the tag of the filter, the loop ends, and then two records come in the other order.
// The mark that is stored is not that of the forgotten entity any more, so no event is left out.
func TestBegunAgainWithoutTheTag(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} { // the loop sees the events of the forgotten entity in the stream, or in the table
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			p := w.process()
			defer p.Close()
			last := annals.SeqNr(0)
			add := func(tags ...string) {
				e := plantest.Event(fmt.Sprint(last))
				e.Tags = tags
				if _, err := p.Journal.Append(t.Context(), annals.Commit{ID: "A|1", After: last, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{e}}); err != nil {
					t.Fatal(err)
				}
				last++
				time.Sleep(time.Second)
			}
			subscribe := func() (got string) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*lease)
				defer cancel()
				c := p.subscribe(ctx, "s", annals.Filter{Tag: "red"})
				defer c.stop()
				for {
					d, err, _ := c.next()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						return got
					}
					for _, e := range d.Events {
						got += fmt.Sprint(e.SeqNr, " ")
					}
					c.ack(d)
				}
			}
			if before {
				subscribe()
			}
			for range 4 {
				add()
			}
			add("red")
			if got := subscribe(); got != "5 " {
				t.Errorf("before it is forgotten: %q", got)
			}
			if err := p.DeleteTo(t.Context(), "A|1", last); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Forget(t.Context(), ability.Forgetting{ID: "A|1"}); err != nil {
				t.Fatal(err)
			}
			last = 0
			for range 4 {
				add()
			}
			if got := subscribe(); got != "" {
				t.Errorf("without the tag: %q", got)
			}
			add("red")
			add("red")
			for _, sh := range w.stream.shards {
				if n := len(sh.records); n > 1 {
					sh.records[n-1], sh.records[n-2] = sh.records[n-2], sh.records[n-1]
				}
			}
			if got := subscribe(); got != "5 6 " {
				t.Errorf("in the other order: %q, want 5 and 6", got)
			}
		})
	}
}

// An entity is forgotten and begins again with fewer events. The stream still has all events of before: a subscription that begins now does not
// deliver them after the new ones.
func TestForgottenEventsInTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		for n := range annals.SeqNr(7) {
			p.append("A|1", n, 1)
			time.Sleep(time.Second)
		}
		if err := p.DeleteTo(t.Context(), "A|1", 7); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Forget(t.Context(), ability.Forgetting{ID: "A|1"}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for n := range annals.SeqNr(4) {
			p.append("A|1", n, 1)
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*lease)
		defer cancel()
		c := p.subscribe(ctx, "s", annals.Filter{})
		defer c.stop()
		got := ""
		for last := false; ; {
			d, err, _ := c.next()
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				break
			}
			for _, e := range d.Events {
				got += fmt.Sprint(e.SeqNr, " ")
				if e.Time.Before(begun) {
					t.Errorf("number %d is of before the entity was forgotten", e.SeqNr)
				}
			}
			if c.ack(d); !last {
				last = true
				p.append("A|1", 4, 1)
			}
		}
		if got != "1 2 3 4 5 " {
			t.Errorf("delivered: %s", got)
		}
	})
}
