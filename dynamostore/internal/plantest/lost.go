package plantest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/lost"
)

// Unnoticed is why the loss of an item can change what is read without an error: the zero Unnoticed says that it cannot.
type Unnoticed struct {
	Why    string
	Strict bool // in a strict store, too; without, such a store must return ErrCorrupt
}

// LoseAnyRow takes away one item after another of the tables that prepare has filled for b.ID. A replay, a recovery and the last number must
// then be as before, or ErrCorrupt, unless accepted says why not. What accepted says must be needed. Check must find
// what a strict store refuses. The reads must not depend on what the layout remembers of the writes.
func LoseAnyRow(t *testing.T, layout plan.Layout, id annals.PersistenceID, prepare func(b *Bench), accepted func(table string, it plan.Item) Unnoticed) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := New(offer.Tables)
	prepare(&Bench{t, x, offer.On(x), offer, id})
	want, err := readAll(t, layout, x, id, false)
	if err != nil {
		t.Fatalf("with all rows: %v", err)
	}
	needed := map[Unnoticed]bool{}
	for _, table := range offer.Tables {
		for i, it := range x.Items(table.Name) {
			less, why := x.Without(table.Name, i), accepted(table.Name, it)
			for _, strict := range []bool{false, true} {
				got, err := readAll(t, layout, less, id, strict)
				wrong := err == nil && got != want || err != nil && !errors.Is(err, annals.ErrCorrupt)
				switch {
				case why.Why != "" && strict == why.Strict:
					needed[why] = needed[why] || wrong
				case wrong && (why.Why == "" || strict):
					t.Errorf("without item %s of table %q, strict %t: %v, %v, want %v or ErrCorrupt", plan.QuoteKey(table.KeyOf(it)), table.Name, strict, got, err, want)
				}
				if strict {
					found, fault := able[ability.Checker](t, openEvents(t, layout, less, false)).Check(t.Context(), id, nil)
					// What only a plugin needs, and a snapshot of events that are lost, is no error for the store.
					beside := slices.ContainsFunc(found, func(d *ability.Damage) bool { return d.Code == ability.Head || d.Code == ability.Orphan })
					if fault != nil || errors.Is(err, annals.ErrCorrupt) != (len(found) > 0) && !beside {
						t.Errorf("without item %s of table %q: a strict store says %v, Check %v, %v", plan.QuoteKey(table.KeyOf(it)), table.Name, err, found, fault)
					}
				}
				if !wrong {
					break
				}
			}
		}
	}
	for reason, ok := range needed {
		if !ok {
			t.Errorf("%+v is not needed", reason)
		}
	}
}

// readAll reads an entity with a new Offer of layout, which remembers nothing.
func readAll(t *testing.T, layout plan.Layout, x plan.Executor, id annals.PersistenceID, strict bool) (string, error) {
	t.Helper()
	s := openEvents(t, layout, x, strict)
	var states lost.States
	if s.offer.States != nil {
		states = func(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
			return s.offer.States.Get(ctx, x, id)
		}
	}
	return lost.Read(t.Context(), s.Journal(), states, able[ability.Recoverer](t, s), id)
}

// eventStore is a store of events and snapshots in tables in memory.
type eventStore struct {
	*driver.Store
	offer plan.Offer
}

func openEvents(t *testing.T, layout plan.Layout, x plan.Executor, strict bool) eventStore {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	c := offer.On(x)
	s := driver.New(opened{Store: driver.Unsupported(), Recoverer: c, events: c, capabilities: offer.Capabilities}, driver.Options{Strict: strict})
	return eventStore{s, offer}
}

// able is an ability of s, which s has.
func able[A any](t *testing.T, s annals.Store) A {
	t.Helper()
	a, err := ability.Of[A](s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type opened struct {
	annals.Store
	ability.Recoverer
	events       plan.Contracts
	states       annals.StateStore // nil: they are not read
	capabilities annals.Capabilities
}

// Audit is driver.Auditor.
func (o opened) Audit(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error) {
	if o.events.Audit == nil {
		return nil, nil
	}
	return o.events.Audit(ctx, id)
}

func (o opened) Capabilities() annals.Capabilities {
	c := o.capabilities
	c.States = c.States && o.states != nil
	return c
}
func (o opened) States() annals.StateStore       { return o.states }
func (o opened) Snapshots() annals.SnapshotStore { return o.events.Snapshots }
func (o opened) Journal() annals.Journal         { return o.events.Journal }
func (o opened) Fault(err error) error           { return err }
