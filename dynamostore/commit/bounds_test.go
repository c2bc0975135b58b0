package commit_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// The highest number of an event is one below MaxSeqNr, also of the event of a state. A commit with a higher one could never be read.
func TestHighestNumber(t *testing.T) {
	t.Parallel()
	offer, err := commit.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	e, ctx, last := offer.On(x), t.Context(), annals.MaxSeqNr-1
	if err := errors.Join(e.SkipTo(ctx, "Thing|1", 0, last), offer.SkipStateTo(ctx, x, "Thing|1", last)); err != nil {
		t.Fatal(err)
	}
	event := plantest.Event("a")
	_, err = e.Journal.Append(ctx, annals.Commit{ID: "Thing|1", After: last, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{event}})
	w := annals.StateWrite{ID: "Thing|1", After: last, WriteID: annals.NewWriteID(), Event: &event, Payload: event.Payload}
	_, err2 := offer.States.Write(ctx, x, plan.StateWrite{StateWrite: w, Time: x.Now()})
	if !errors.Is(err, annals.ErrInvalid) || !errors.Is(err2, annals.ErrInvalid) {
		t.Errorf("events after %d: %v, and with a state %v", last, err, err2)
	}
	if n, err := e.Journal.LastSeqNr(ctx, "Thing|1"); n != last || err != nil {
		t.Errorf("last number %d, %v", n, err)
	}
}

// A skip after a number of an entity without events says that the last number is 0.
func TestSkipAfterNothing(t *testing.T) {
	t.Parallel()
	offer, err := commit.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var conflict *annals.Error
	if err := offer.On(plantest.New(offer.Tables)).SkipTo(t.Context(), "Thing|1", 3, 7); !errors.As(err, &conflict) || conflict.Kind != annals.ErrConflict || conflict.Last != 0 {
		t.Errorf("got %v", err)
	}
}
