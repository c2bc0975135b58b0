package subscription

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// partly sees the transaction that begins a round as it is being applied: its first queries miss some of the items.
type partly struct {
	plan.Executor
	queries int
}

func (p *partly) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	all := p.Executor.Query(ctx, q)
	if p.queries--; p.queries < 0 {
		return all
	}
	return plan.Picked(all, func(it plan.Item) (plan.Item, bool, error) {
		return it, plan.KeyText(it[attrShard]) != catchUp+" 3", nil
	})
}

// A query is not of one moment: it can see a part of a transaction. So a loop that looks while a round begins does not take it for damaged.
func TestRoundSeenInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		first, second := w.process(), w.process()
		defer first.Close()
		defer second.Close()
		first.append("A|1", 0, 1)
		one := first.subscribe(t.Context(), "s", annals.Filter{})
		defer one.stop()
		one.handle(1)
		second.Executor = &partly{second.Executor, plan.Looks - 1}
		if _, err := load(t.Context(), second.Executor, subscriptions, "s"); err != nil {
			t.Error(err)
		}
		lost := &partly{second.Executor, plan.Looks}
		if v, err := load(t.Context(), lost, subscriptions, "s"); err == nil {
			t.Errorf("got %d parts without an error", v.parts)
		}
	})
}

// The shards of a round that begins during the read are not of the round of the head that was read: other loops may still hold its shards.
func TestShardsOfLaterRound(t *testing.T) {
	t.Parallel()
	v := view{head: &head{round: 1}}
	for round := range int64(3) {
		s := shard{round: round, id: catchUp + " 0", write: newWrite()}
		if err := v.add("s", s.item("s")); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.shards) != 1 || v.shards[0].round != 1 || v.parts != 1 || len(v.void) != 1 {
		t.Errorf("got shards %v, %d parts and %d void shards", v.shards, v.parts, len(v.void))
	}
}
