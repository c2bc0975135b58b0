package dynamostore

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// offerOf returns what a layout offers.
func offerOf(t *testing.T, layout plan.Layout) plan.Offer {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return offer
}

// likeOthers are layouts whose option changes how items are named, encoded or read, where another layout has the same option. The requests of their
// guards and writes are those of others. TestSchedules has them all.
var likeOthers = regexp.MustCompile(`^esa, (?:js|js 3|rust|rust 3|rust 5|java|seed), (?:plain|value|micros|own keys|expiring copies)$|^j5ik2o, (?:index|legacy|no index), `)

// The guards of every layout that has them hold exactly while the number is the one that was read.
func TestGuardsInEveryOrder(t *testing.T) {
	t.Parallel()
	for name, layout := range scheduled() {
		if !offerOf(t, layout).Capabilities.GuardsReads || likeOthers.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := plantest.GuardsInEveryOrder(t, layout, func() plan.Offer { return offerOf(t, layout) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// The test of guards finds those that are wrong. The conditions of the next append are not enough where deletes remove its items: these layouts do not
// claim GuardsReads.
func TestGuardsFindMutants(t *testing.T) {
	t.Parallel()
	other := func(by annals.SeqNr) func(plan.Offer) plan.Offer {
		return func(offer plan.Offer) plan.Offer {
			on := offer.On
			offer.On = func(x plan.Executor) plan.Contracts {
				c := on(x)
				guard := c.Guard
				c.Guard = func(id annals.PersistenceID, n annals.SeqNr) ([]plan.Guard, error) { return guard(id, n+by) }
				return c
			}
			return offer
		}
	}
	none := func(offer plan.Offer) plan.Offer {
		on := offer.On
		offer.On = func(x plan.Executor) plan.Contracts {
			c := on(x)
			c.Guard = func(annals.PersistenceID, annals.SeqNr) ([]plan.Guard, error) { return nil, nil }
			return c
		}
		return offer
	}
	state := func(offer plan.Offer) plan.Offer {
		offer.States = otherRevision{offer.States}
		return offer
	}
	for name, mutant := range map[string]struct {
		layout plan.Layout
		change func(plan.Offer) plan.Offer
	}{
		"no guard":                          {commit.Layout{}, none},
		"the number after the next":         {commit.Layout{}, other(1)},
		"the last number":                   {commit.Layout{}, other(-1)},
		"the revision after":                {commit.Layout{}, state},
		"the revision after, of j5ik2o":     {j5ik2o.Layout{}, state},
		"the next append of akka":           {akka.Layout{}, asAppend},
		"the next append after hard delete": {j5ik2o.Layout{Journal: j5ik2o.Journal{HardDelete: true}}, asAppend},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := plantest.GuardsInEveryOrder(t, mutant.layout, func() plan.Offer { return mutant.change(offerOf(t, mutant.layout)) }); err == nil {
				t.Error("the guard is accepted")
			}
		})
	}
}

// otherRevision has guards of another revision.
type otherRevision struct{ plan.States }

func (s otherRevision) Guard(id annals.PersistenceID, n annals.SeqNr) (plan.Guard, error) {
	return s.States.Guard(id, n+1)
}

// asAppend gives an offer guards with the conditions of an append of one event.
func asAppend(offer plan.Offer) plan.Offer {
	on := offer.On
	offer.On = func(x plan.Executor) plan.Contracts {
		c := on(x)
		c.Guard = func(id annals.PersistenceID, n annals.SeqNr) (guards []plan.Guard, err error) {
			held := &withheld{Executor: x}
			event := annals.NewEvent{Payload: annals.Payload{SerializerID: 1}}
			if _, err := on(held).Journal.Append(context.Background(), annals.Commit{ID: id, After: n, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{event}}); !errors.Is(err, errWithheld) {
				return nil, err
			}
			for _, op := range held.ops {
				at := slices.IndexFunc(offer.Tables, func(t plan.Table) bool { return t.Name == op.Table })
				op.Key, op.Put = offer.Tables[at].KeyOf(op.Put), nil
				guards = append(guards, plan.Guard{Op: op})
			}
			return guards, nil
		}
		return c
	}
	return offer
}

// withheld is an Executor that keeps a write and does not send it.
type withheld struct {
	plan.Executor
	ops []plan.Op
}

var errWithheld = errors.New("not sent")

func (h *withheld) Write(_ context.Context, w plan.Write) (plan.Outcome, error) {
	h.ops = w.Ops
	return plan.Outcome{}, errWithheld
}
