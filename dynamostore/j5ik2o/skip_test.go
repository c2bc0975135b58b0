package j5ik2o_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// A row of another skip does not show that this one was stored.
func TestSkipBesideOthers(t *testing.T) {
	t.Parallel()
	offer, err := j5ik2o.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	e := &plantest.Entity{Ctx: t.Context(), Offer: offer, ID: "Thread-42", First: 1}
	if err := e.Write(x, 5); err != nil {
		t.Fatal(err)
	}
	skip := offer.On(x).SkipTo
	x.Meanwhile = func() {
		if err := errors.Join(skip(t.Context(), e.ID, 5, 8), skip(t.Context(), e.ID, 8, 12)); err != nil { // rows 6 and 8, 9 and 12
			t.Error(err)
		}
	}
	if err := skip(t.Context(), e.ID, 5, 9); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("skip from 5 to 9: %v", err)
	}
}
