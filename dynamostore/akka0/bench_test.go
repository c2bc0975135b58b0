package akka0_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const table = "events"

// bench is a layout on a table in memory. It runs the functions of the layout.
type bench struct {
	*testing.T
	plan.Contracts
	layout akka0.Layout
	offer  plan.Offer
	x      *plantest.Executor
}

func newBench(t *testing.T, l akka0.Layout) bench {
	t.Helper()
	l.Table = table
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	return bench{t, offer.On(x), l, offer, x}
}

// Execute is plan.Runner.
func (b bench) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, b.Contracts, b.x)
}

// append stores the events from … to as one commit.
func (b bench) append(id annals.PersistenceID, from, to annals.SeqNr) error {
	c := annals.Commit{ID: id, After: from - 1, WriteID: annals.NewWriteID()}
	for i := range to - from + 1 {
		c.Events = append(c.Events, plantest.Event(fmt.Sprint(from+i)))
	}
	_, err := b.Journal.Append(b.Context(), c)
	return err
}

// fill stores the events 1 … last in commits of 50.
func (b bench) fill(id annals.PersistenceID, last annals.SeqNr) {
	b.Helper()
	for n := annals.SeqNr(1); n <= last; n += 50 {
		b.must(b.append(id, n, min(n+49, last)))
	}
}

func (b bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// put stores an item as another program does.
func (b bench) put(it plan.Item) {
	b.Helper()
	_, err := b.x.Write(b.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: it}}})
	b.must(err)
}

// remove removes an item as another program does.
func (b bench) remove(key string) {
	b.Helper()
	b.must(b.x.DeleteAll(b.Context(), table, []plan.Item{{"key": plan.S(key)}}))
}

// item returns the item at a key; nil when there is none.
func (b bench) item(key string) plan.Item {
	b.Helper()
	it, _, err := b.x.Get(b.Context(), plan.Get{Table: table, Key: plan.Item{"key": plan.S(key)}})
	b.must(err)
	return it
}

// numbers returns the numbers of the events from … to, as text.
func (b bench) numbers(id annals.PersistenceID, from, to annals.SeqNr) string {
	b.Helper()
	var all []annals.SeqNr
	for e, err := range b.Journal.Replay(b.Context(), id, from, to) {
		b.must(err)
		all = append(all, e.SeqNr)
	}
	return fmt.Sprint(all)
}

// messages returns the events from … to with those marked as deleted, as text.
func (b bench) messages(id annals.PersistenceID, from, to annals.SeqNr) string {
	b.Helper()
	var all []string
	for m, err := range akka0.Messages(b.Context(), plantest.Store(b), id, from, to) {
		b.must(err)
		text := fmt.Sprint(m.SeqNr)
		if m.Deleted {
			text += " deleted"
		}
		if m.Confirmations != nil {
			text += fmt.Sprint(" ", m.Confirmations)
		}
		all = append(all, text)
	}
	return fmt.Sprintf("%q", all)
}

func (b bench) last(id annals.PersistenceID) annals.SeqNr {
	b.Helper()
	last, err := b.Journal.LastSeqNr(b.Context(), id)
	b.must(err)
	return last
}
