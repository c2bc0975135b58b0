package plantest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// WantLeft fails t unless exactly what want says is damaged in tables that another system left: "code id from to", separated by semicolons.
func WantLeft(t *testing.T, layout plan.Layout, x *Executor, want string) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	s := driver.New(opened{Store: driver.Unsupported(), Recoverer: offer.On(x), events: offer.On(x), states: reading{x: x, s: offer.States}, capabilities: offer.Capabilities}, driver.Options{})
	var got []string
	add := func(d *ability.Damage) {
		if line := fmt.Sprintf("%s %s %d %d", d.Code, d.ID, d.From, d.To); !slices.Contains(got, line) {
			got = append(got, line)
		}
	}
	ids := map[annals.PersistenceID]bool{}
	for _, table := range offer.Tables {
		for _, it := range x.Items(table.Name) {
			id, damage := offer.Row(table.Name, it)
			if damage != nil {
				add(damage)
			}
			if id == "" || ids[id] {
				continue
			}
			ids[id] = true
			found, err := able[ability.Checker](t, s).Check(t.Context(), id, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range found {
				add(d)
			}
		}
	}
	if slices.Sort(got); strings.Join(got, "; ") != want {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "; "), want)
	}
}

// reading is an annals.StateStore that can only read.
type reading struct {
	annals.StateStore
	x plan.Executor
	s plan.States
}

func (r reading) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	return r.s.Get(ctx, r.x, id)
}
