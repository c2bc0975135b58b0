package akka0_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// direct runs functions on a plantest.Bench.
type direct struct{ *plantest.Bench }

func (d direct) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, d.Contracts, d.Executor)
}

// The golden files have the requests that write and read items. TestGoldenWrite compares the items with the plugin's.
func TestRequests(t *testing.T) {
	marks := akka0.Layout{Table: table, SequenceShards: 3}
	permanent := akka0.Layout{Table: table, SequenceShards: 3, Permanent: true}
	requests := func(name string, layout akka0.Layout, prepare, do func(*plantest.Bench)) {
		t.Helper()
		plantest.Requests(t, name, layout, prepare, do)
	}
	put := func(b *plantest.Bench, it plan.Item) {
		if _, err := b.Write(b.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: it}}}); err != nil {
			b.Fatal(err)
		}
	}
	five := func(b *plantest.Bench) { b.Append(0, "1", "2"); b.Append(2, "3"); b.Append(3, "4", "5") }
	messages := func(b *plantest.Bench) {
		var all []string
		var failed error
		for m, err := range akka0.Messages(b.Context(), plantest.Store(direct{b}), b.ID, 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				all = append(all, fmt.Sprintf("%d, deleted %v, confirmed by %q", m.SeqNr, m.Deleted, m.Confirmations))
			}
		}
		b.Told(fmt.Sprintf("messages %q", all), failed)
	}

	requests("append", marks, nil, func(b *plantest.Bench) {
		b.Append(0, "1")
		c := annals.Commit{ID: b.ID, After: 1, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event("2"), plantest.Event("3"), plantest.Event("4"), plantest.Event("5")}}
		c.Events[1].Adapter = "adapter"
		b.Commit(c)
		b.Append(0, "other")
		c.WriteID = plantest.WriteID(8)
		b.Commit(c)
	})
	requests("append-over-an-item-without-payload", marks, func(b *plantest.Bench) {
		put(b, plan.Item{"key": plan.S("journal-P-Thread|42-1"), "deleted": plan.S("true")})
	}, func(b *plantest.Bench) { b.Append(0, "1"); b.Last() })
	requests("append-after-a-permanent-delete", permanent, five, func(b *plantest.Bench) {
		b.Delete(5)
		for after := range annals.SeqNr(5) {
			b.Append(after, "late")
		}
		b.Append(5, "6")
	})
	requests("append-refused", marks, func(b *plantest.Bench) {
		put(b, plan.Item{"key": plan.S("journal-P-a-SH-b-1"), "sequenceNr": plan.N(1)}) // of the journal "journal-P-a" and the id "b"
		put(b, plan.Item{"key": plan.S("journal-SH-c-P-d-1"), "payload": plan.B([]byte("another")), "deleted": plan.S("false")})
	}, func(b *plantest.Bench) {
		b.Append(0, strings.Repeat("x", plan.MaxItemBytes))
		b.ID = "a-SH-b"
		b.Append(0, "1")
		b.ID = "c-P-d"
		b.Append(0, "1")
	})
	requests("read", marks, five, func(b *plantest.Bench) {
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(3, 4)
		b.Replay(9, 20)
		b.Last()
	})
	requests("read-over-holes", marks, func(b *plantest.Bench) {
		five(b)
		put(b, plan.Item{"key": plan.S("journal-P-Thread|42-2"), "deleted": plan.S("true")})
		b.Told("delete", akka0.Delete(b.Context(), plantest.Store(direct{b}), b.ID, true, 4))
	}, func(b *plantest.Bench) { b.Replay(1, annals.MaxSeqNr); b.Replay(1, 4) })
	requests("read-overtaken-by-a-delete", permanent, func(b *plantest.Bench) {
		five(b)
		b.Told("delete", akka0.Delete(b.Context(), plantest.Store(direct{b}), b.ID, true, 4))
	}, func(b *plantest.Bench) {
		for e, err := range b.Journal.Replay(b.Context(), b.ID, 1, annals.MaxSeqNr) {
			switch {
			case err != nil:
				b.Told("replay", err)
			case e.SeqNr == 3:
				b.Delete(3)
			}
		}
	})
	requests("read-of-events-without-counters", permanent, func(b *plantest.Bench) {
		five(b)
		if err := b.DeleteAll(b.Context(), table, []plan.Item{{"key": plan.S("journal-SH-Thread|42-1")}, {"key": plan.S("journal-SH-Thread|42-2")}}); err != nil {
			b.Fatal(err)
		}
	}, func(b *plantest.Bench) {
		b.Last()
		b.Delete(5)
		b.Last()
	})
	deletes := func(b *plantest.Bench) {
		b.Delete(3)
		b.Delete(3)
		b.Replay(1, annals.MaxSeqNr)
		messages(b)
		b.Delete(annals.MaxSeqNr)
		b.Last()
	}
	requests("delete", marks, five, deletes)
	requests("delete-permanent", permanent, five, deletes)
	requests("functions", marks, five, func(b *plantest.Bench) {
		ctx, s := b.Context(), direct{b}
		b.Told("confirm", akka0.Confirm(ctx, plantest.Store(s), b.ID, map[annals.SeqNr][]string{4: {"d", "c", "d"}, 2: {"c"}, 9: {"c"}}))
		b.Told("confirm without a channel", akka0.Confirm(ctx, plantest.Store(s), b.ID, map[annals.SeqNr][]string{4: {""}}))
		b.Told("mark as deleted", akka0.Delete(ctx, plantest.Store(s), b.ID, false, 4, 2, 9))
		b.Told("delete", akka0.Delete(ctx, plantest.Store(s), b.ID, true, 3, 3, 9))
		b.Told("delete event 0", akka0.Delete(ctx, plantest.Store(s), b.ID, true, 0))
		messages(b)
		n, err := akka0.Lowest(ctx, plantest.Store(s), b.ID)
		b.Told(fmt.Sprintf("lowest %d", n), err)
		b.Contracts.Journal = nil // of another layout
		b.Told("confirm", akka0.Confirm(ctx, plantest.Store(s), b.ID, nil))
		messages(b)
	})
	requests("skip", marks, nil, func(b *plantest.Bench) {
		for _, n := range []annals.SeqNr{100, 100, 99} {
			b.Told(fmt.Sprintf("skip to %d", n), b.SkipTo(b.Context(), b.ID, 0, n))
		}
		b.Last()
		b.Append(0, "1")
	})
	check := func(b *plantest.Bench) { b.Told("check", b.Offer.Check(b.Context(), b, false)) }
	requests("settings", marks, five, check)
	requests("settings-other-journal", akka0.Layout{Table: table, JournalName: "other"}, func(b *plantest.Bench) {
		put(b, plan.Item{"key": plan.S("journal-SH-a-1"), "sequenceNr": plan.N(1)})
	}, check)
	requests("settings-other-journal-named", akka0.Layout{Table: table, JournalName: "other", OtherNames: []string{"journal"}}, func(b *plantest.Bench) {
		put(b, plan.Item{"key": plan.S("journal-SH-a-1"), "sequenceNr": plan.N(1)})
	}, check)
	requests("settings-few-shards", marks, func(b *plantest.Bench) {
		put(b, plan.Item{"key": plan.S("journal-SH-a-3"), "sequenceNr": plan.N(3)})
	}, check)
}

// The settings are checked, and limit ids and commits.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, l := range []akka0.Layout{{}, {Table: "t", SequenceShards: -1}, {Table: "t", SequenceShards: 100_001}, {Table: "t", JournalName: strings.Repeat("x", 2048)}} {
		if _, err := l.Plan(); err == nil {
			t.Errorf("%+v was accepted", l)
		}
	}
	for shards, want := range map[int]int{0: 50, 1: 99, 20: 80, 49: 51, 50: 50, 51: 50, 1000: 50} {
		b := newBench(t, akka0.Layout{SequenceShards: shards})
		most := b.offer.Capabilities.Limits.MaxEvents
		b.must(b.append("a", 1, annals.SeqNr(most)))
		if items := len(b.x.Items(table)); most != want || items > 100 {
			t.Errorf("%d shards: %d events in a commit of %d items, want %d", shards, most, items, want)
		}
	}
	for _, name := range []string{"", "a-long-name"} {
		b := newBench(t, akka0.Layout{JournalName: name})
		id := annals.PersistenceID(strings.Repeat("x", b.offer.Capabilities.Limits.MaxIDBytes))
		b.must(b.append(id, annals.MaxSeqNr, annals.MaxSeqNr))
		longest := 0
		for _, it := range b.x.Items(table) {
			key, _ := plan.Text(it, "key")
			longest = max(longest, len(key))
		}
		if longest != 2048 {
			t.Errorf("journal %q: the longest key of the longest id has %d bytes", name, longest)
		}
	}
}
