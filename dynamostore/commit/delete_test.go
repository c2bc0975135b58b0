package commit_test

import (
	"context"
	"iter"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// ahead counts the items that queries have yielded since the last write. A delete keeps them in memory.
type ahead struct {
	*plantest.Executor
	now, most, queries int
}

func (a *ahead) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	a.queries++
	return func(yield func(plan.Item, error) bool) {
		for it, err := range a.Executor.Query(ctx, q) {
			if a.now++; !yield(it, err) {
				return
			}
		}
	}
}

func (a *ahead) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	a.most, a.now = max(a.most, a.now), 0
	return a.Executor.Write(ctx, w)
}

// A delete of many commits lists a bounded number of them before it deletes the first.
func TestDeleteKeepsLittleInMemory(t *testing.T) {
	t.Parallel()
	const commits, most = 1200, 1000
	e, x := furnished(t)
	a := &ahead{Executor: x}
	e.ID, e.Acked = "Thread|long", 0
	for range commits {
		if err := e.Write(x, 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.DeleteTo(a, 10); err != nil || a.queries != 2 {
		t.Errorf("delete of 5 commits: %v, %d queries", err, a.queries)
	}
	a.queries = 0
	if err := e.DeleteTo(a, 2*commits-1); err != nil || a.queries > 20 || a.most > most+50 {
		t.Errorf("delete of %d commits: %v, %d queries, %d items listed before a write", commits, err, a.queries, a.most)
	}
	var got []annals.SeqNr
	for ev, err := range e.Offer.On(x).Journal.Replay(e.Ctx, e.ID, 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.SeqNr)
	}
	if len(got) != 1 || got[0] != 2*commits {
		t.Errorf("left are %v", got)
	}
}
