package akka

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const journalTable = "akka-persistence"

// three has few markers, so that the golden files are short.
var three = Layout{Journal: Journal{SequenceShards: 3}}

// runner is a plan.Runner of a layout on tables in memory.
type runner struct {
	plan.Contracts
	x plan.Executor
}

func (r runner) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, r.Contracts, r.x)
}

// single appends the events from … to, each with a commit of its own.
func single(b *plantest.Bench, from, to annals.SeqNr) {
	var err error
	for last := from - 1; last < to && err == nil; last++ {
		_, err = b.Journal.Append(b.Context(), annals.Commit{ID: b.ID, After: last, WriteID: plantest.WriteID(byte(last)), Events: []annals.NewEvent{plantest.Event(fmt.Sprint(last + 1))}})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// restarted makes b that of another process, which knows no entity.
func restarted(b *plantest.Bench) {
	offer, err := three.Plan()
	if err != nil {
		b.Fatal(err)
	}
	b.Contracts = offer.On(b)
}

// lose removes the items of events.
func lose(b *plantest.Bench, numbers ...annals.SeqNr) {
	for _, n := range numbers {
		key := plan.Item{"par": plan.S(fmt.Sprintf("journal-P-%s-%d", b.ID, n/100)), "num": plan.N(n % 100)}
		if err := b.DeleteAll(b.Context(), journalTable, []plan.Item{key}); err != nil {
			b.Fatal(err)
		}
	}
}

// unmark removes all markers of the highest group.
func unmark(b *plantest.Bench, shards int) {
	for shard := range shards {
		if err := b.DeleteAll(b.Context(), journalTable, []plan.Item{{"par": plan.S(fmt.Sprintf("journal-SH-%s-%d", b.ID, shard)), "num": plan.N(0)}}); err != nil {
			b.Fatal(err)
		}
	}
}

// The golden files have the requests of the journal.
func TestRequests(t *testing.T) {
	old := Layout{Journal: Journal{SequenceShards: 3, Old: true}}
	named := func(do func(*plantest.Bench)) func(*plantest.Bench) {
		return func(b *plantest.Bench) {
			if b.ID = "order-1"; do != nil {
				do(b)
			}
		}
	}
	requests := func(name string, layout Layout, prepare, do func(*plantest.Bench)) {
		t.Helper()
		plantest.Requests(t, name, layout, named(prepare), do)
	}
	events := func(from, to annals.SeqNr) func(*plantest.Bench) {
		return func(b *plantest.Bench) { single(b, from, to) }
	}
	appends := func(b *plantest.Bench) {
		b.Append(97, "98")
		c := annals.Commit{ID: b.ID, After: 98, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event("99")}}
		c.Events[0].Adapter = "v2"
		b.Commit(c)
		b.Commit(c) // again
		b.Append(98, "other")
		b.Append(99, "100")
		b.Append(100, "101", "102")
		b.Append(100, "101", "102") // again
		b.Append(199, "200", "201")
		b.Append(199, "200", "201") // again
	}
	requests("append", three, nil, appends)
	requests("append-old", old, nil, appends)
	requests("append-refused", three, nil, func(b *plantest.Bench) {
		for _, size := range []int{399_903, 399_904} { // the plugin's estimate adds 97
			b.Commit(annals.Commit{ID: b.ID, WriteID: plantest.WriteID(byte(size)), Events: []annals.NewEvent{plantest.Event(strings.Repeat("x", size))}})
		}
	})
	requests("append-repeated-late", three, func(b *plantest.Bench) { b.Append(99, "100") }, func(b *plantest.Bench) {
		b.Append(399, "400") // in the shard of group 1
		b.Append(99, "100")  // again
		lose(b, 100)
		b.Append(99, "100") // its number is free, but the marker is above it
	})
	requests("append-to-an-unmarked-group", three, func(b *plantest.Bench) {
		single(b, 98, 99)
		b.Append(100, "101") // the plugin left 100 unused
		restarted(b)
	}, func(b *plantest.Bench) {
		b.Last()
		b.Append(101, "102")
		b.Append(102, "103")
	})
	requests("last", three, events(1, 5), func(b *plantest.Bench) {
		restarted(b)
		b.Last()
		b.ID = "other"
		b.Last()
	})
	requests("last-of-a-live-id", three, events(98, 105), func(b *plantest.Bench) {
		b.Last()
		restarted(b)
		b.Last()
		b.Last()
	})
	requests("last-without-its-event", three, func(b *plantest.Bench) { single(b, 98, 100); lose(b, 100) }, (*plantest.Bench).Last)
	requests("last-without-markers", three, func(b *plantest.Bench) {
		single(b, 97, 98)
		b.Append(101, "102")
		b.Append(200, "201")
		unmark(b, 3)
		restarted(b)
	}, (*plantest.Bench).Last)
	requests("replay", three, events(97, 202), func(b *plantest.Bench) {
		b.Replay(98, annals.MaxSeqNr)
		b.Replay(198, 201)
		b.Replay(203, annals.MaxSeqNr)
		b.Replay(900, annals.MaxSeqNr)
	})
	requests("replay-inside-batches", three, func(b *plantest.Bench) {
		b.Append(0, "1")
		b.Append(1, "2", "3", "4", "5", "6")
		single(b, 95, 97)
		b.Append(97, "98", "99", "100", "101")
		b.Append(101, "102")
	}, func(b *plantest.Bench) {
		b.Replay(3, 5)
		b.Replay(100, annals.MaxSeqNr)
		b.Replay(96, 98)
		b.Delete(3)
		b.Replay(1, 4)
		lose(b, 99)
		b.Replay(97, annals.MaxSeqNr)
		b.Replay(100, 100)
	})
	requests("replay-over-a-hole", three, func(b *plantest.Bench) { single(b, 1, 5); lose(b, 3) }, func(b *plantest.Bench) {
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(3, annals.MaxSeqNr)
	})
	requests("replay-overtaken-by-a-delete", three, events(97, 102), func(b *plantest.Bench) {
		for e, err := range b.Journal.Replay(b.Context(), b.ID, 97, annals.MaxSeqNr) {
			switch {
			case err != nil:
				b.Told("replay", err)
			case e.SeqNr == 99:
				b.Delete(annals.MaxSeqNr)
			}
		}
	})
	requests("delete", three, func(b *plantest.Bench) {
		single(b, 96, 99)
		b.Append(99, "100", "101", "102")
		b.Append(102, "103")
	}, func(b *plantest.Bench) {
		b.Delete(97)
		b.Delete(3)
		b.Replay(96, annals.MaxSeqNr)
		b.Delete(annals.MaxSeqNr)
		b.Delete(annals.MaxSeqNr)
		b.Replay(1, annals.MaxSeqNr)
		b.Last()
		b.Append(103, "104")
		b.ID = "other"
		b.Delete(5)
	})
	requests("purge", three, func(b *plantest.Bench) { single(b, 98, 103); b.Delete(101) }, func(b *plantest.Bench) {
		s := runner{b.Contracts, b}
		b.Told("purge", Purge(b.Context(), plantest.Store(s), b.ID))
		numbers, low, high, err := ListAll(b.Context(), plantest.Store(s), b.ID)
		b.Told(fmt.Sprintf("list all: {%v %v %v}", low, high, numbers), err)
	})
	requests("repair", three, func(b *plantest.Bench) { single(b, 98, 102); unmark(b, 3); restarted(b) }, func(b *plantest.Bench) {
		for range 2 {
			written, err := Repair(b.Context(), plantest.Store(runner{b.Contracts, b}), b.ID)
			b.Told(fmt.Sprintf("repair: %v", written), err)
		}
	})
	recover := func(b *plantest.Bench) {
		var got []string
		last, err := b.Recover(b.Context(), b.ID, func(s annals.Snapshot) error { got = append(got, fmt.Sprintf("snapshot %d", s.SeqNr)); return nil },
			func(e annals.Event) error { got = append(got, fmt.Sprint(e.SeqNr)); return nil })
		b.Told(fmt.Sprintf("recover: %v, last %d", got, last), err)
	}
	requests("recover", three, events(98, 103), func(b *plantest.Bench) {
		b.Save(101, []byte("state"))
		recover(b)
		b.Save(103, []byte("state"))
		recover(b)
		b.Delete(103)
		recover(b)
		b.ID = "other"
		recover(b)
	})
	requests("recover-behind-the-rest-of-a-batch", three, func(b *plantest.Bench) { b.Append(0, "1"); b.Append(1, "2", "3", "4"); lose(b, 3) }, recover)
}

// A replay of many events reads each group once.
func TestReplayReadsNoGroupTwice(t *testing.T) {
	offer, err := Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	j := offer.On(x).Journal
	const events = 10_000
	for after := annals.SeqNr(0); after < events; after += 50 {
		c := annals.Commit{ID: "order-1", After: after, WriteID: annals.NewWriteID()}
		for range 50 {
			c.Events = append(c.Events, plantest.Event("e"))
		}
		if _, err := j.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	x.Log()
	next := annals.SeqNr(1)
	for e, err := range offer.On(x).Journal.Replay(t.Context(), "order-1", 1, annals.MaxSeqNr) {
		if err != nil || e.SeqNr != next {
			t.Fatal(e.SeqNr, err)
		}
		next++
	}
	log := x.Log()
	for group := range events/100 + 2 {
		if n := strings.Count(log, fmt.Sprintf("%q", fmt.Sprintf("journal-P-order-1-%d", group))); n != 1 {
			t.Errorf("group %d was read %d times", group, n)
		}
	}
	if queries, gets := strings.Count(log, "query "), strings.Count(log, "get all "); next != events+1 || queries != events/100+2 || gets != 1 {
		t.Errorf("%d events in %d queries and %d gets", next-1, queries, gets)
	}
}
