package akka

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// uncommitted is the executor within a transaction that is not committed.
type uncommitted struct{ plan.Executor }

func (uncommitted) Write(_ context.Context, w plan.Write) (plan.Outcome, error) {
	return plan.Outcome{Old: make([]plan.Item, len(w.Ops))}, nil
}

func (uncommitted) Then(context.Context, func(context.Context, plan.Executor) error) error {
	return nil
}

// A transaction that is not committed does not write the marker that another writer has left out, so the next append does.
func TestMarkerAfterATransactionThatFails(t *testing.T) {
	t.Parallel()
	offer, err := Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	appendTo := func(x plan.Executor, after annals.SeqNr) {
		t.Helper()
		c := annals.Commit{ID: "Thing|1", After: after, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("a")}}
		if _, err := offer.On(x).Journal.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(x, 98)
	appendTo(x, 100) // as the plugin, which has left the number 100 unused, and with it the marker of the group
	on := offer.On(x)
	if last, err := on.Journal.LastSeqNr(t.Context(), "Thing|1"); last != 101 || err != nil {
		t.Fatal(last, err)
	}
	appendTo(uncommitted{x}, 101)
	appendTo(x, 101)
	if damages, err := on.Audit(t.Context(), "Thing|1"); len(damages) > 0 || err != nil {
		t.Errorf("damages %v, %v", damages, err)
	}
}
