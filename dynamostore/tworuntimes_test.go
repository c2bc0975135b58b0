package dynamostore_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/hosttest"
)

// recovered are layouts whose recoveries differ.
func recovered() map[string]dynamostore.Layout {
	return map[string]dynamostore.Layout{
		"commit":                    newCommit(),
		"j5ik2o, id":                newJ5ik2o(j5ik2o.Journal{}, false)(),
		"j5ik2o, number":            newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, ShardCount: 4}, false)(),
		"j5ik2o, number and number": newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.ByNumber, ShardCount: 4}, true)(),
	}
}

// onLayouts runs test with layouts. open opens another store on the same tables.
func onLayouts(t *testing.T, layouts map[string]dynamostore.Layout, test func(t *testing.T, open func() annals.Store)) {
	t.Parallel()
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opener(t, layout))
		})
	}
}

func TestTwoRuntimes(t *testing.T) {
	onLayouts(t, recovered(), func(t *testing.T, open func() annals.Store) {
		hosttest.TwoRuntimes(t, open(), open())
	})
}

// Turns are those of the hosts, so that one layout is enough.
func TestTurns(t *testing.T) {
	t.Parallel()
	open := opener(t, newCommit())
	hosttest.Turns(t, open(), open())
}

// Transactions of more than one entity need one layout only.
func TestRules(t *testing.T) {
	t.Parallel()
	open := opener(t, newCommit())
	hosttest.Rules(t, open(), open())
}

// The layouts that have durable states; others are refused.
func TestTimers(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit": newCommit(), "j5ik2o": newJ5ik2o(j5ik2o.Journal{HardDelete: true}, false)(),
		"akka": akka.Layout{}, "akka0": akka0.Layout{Table: "timers-akka0"}, "esa": ownTables("timers", esa.Layout{Peer: esa.Rust5}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if open := opener(t, layout); open().Capabilities().States {
				hosttest.Timers(t, open(), open())
			} else {
				hosttest.NoTimers(t, open())
			}
		})
	}
}

// Keys of commands need durable states, and not that reads are guarded.
func TestKeys(t *testing.T) {
	layouts := map[string]dynamostore.Layout{"commit": newCommit(), "j5ik2o": newJ5ik2o(j5ik2o.Journal{HardDelete: true}, false)()}
	onLayouts(t, layouts, func(t *testing.T, open func() annals.Store) {
		hosttest.Keys(t, open(), open())
	})
}

func TestHostsRecover(t *testing.T) {
	onLayouts(t, recovered(), func(t *testing.T, open func() annals.Store) {
		hosttest.Recovery(t, open())
	})
}

// It sends many requests: make test runs half of the layouts, make race the others.
func TestHostsLoadThePast(t *testing.T) {
	layouts := recovered()
	maps.DeleteFunc(layouts, func(name string, _ dynamostore.Layout) bool {
		return (name == "commit" || name == "j5ik2o, number") == testing.Short()
	})
	onLayouts(t, layouts, func(t *testing.T, open func() annals.Store) {
		hosttest.Past(t, open())
	})
}

func TestHostsDeleteEvents(t *testing.T) {
	onLayouts(t, recovered(), func(t *testing.T, open func() annals.Store) {
		hosttest.Retention(t, open())
	})
}

// Without FenceAfterDelete two owners that delete events would lose commands that were answered, so hosts refuse the layout.
func TestHostsWithoutFenceAfterDelete(t *testing.T) {
	t.Parallel()
	b := behavior.EventSourced[int, int, int, int]{
		Type: "Fence", SnapshotEvery: 1,
		Decide: func(_, n int) ([]int, error) { return []int{n}, nil },
		Evolve: func(s, n int) int { return s + n },
	}
	for name, layout := range map[string]dynamostore.Layout{
		"akka":               akka.Layout{},
		"j5ik2o, HardDelete": newJ5ik2o(j5ik2o.Journal{HardDelete: true}, false)(),
	} {
		s := opener(t, layout)()
		_, refused := entity.New(s, b, entity.Options{DeleteEvents: true})
		_, refusedToo := aggregate.New(s, b, aggregate.Options{DeleteEvents: true})
		if !errors.Is(refused, annals.ErrUnsupported) || !errors.Is(refusedToo, annals.ErrUnsupported) {
			t.Errorf("%s: %v and %v, want not supported", name, refused, refusedToo)
		}
		rt, err := entity.New(s, b, entity.Options{DeleteEvents: true, SingleOwner: true})
		if err != nil {
			t.Fatal(name, err)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
