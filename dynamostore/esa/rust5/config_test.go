package rust5_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/writes"
)

// New tables get settings with one store_id, which later processes only read.
func TestSettingsAreMadeOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5})
	ids := map[string]bool{}
	for _, table := range []string{"journal", "snapshot", "head"} {
		items := b.Items(table)
		if len(items) != 1 || plan.KeyText(items[0]["aid"]) != "__config__" || plan.KeyText(items[0]["layout_version"]) != "1" {
			t.Fatalf("table %s has %v", table, items)
		}
		id, _ := plan.Text(items[0], "store_id")
		if _, err := writes.ParseID(id); err != nil {
			t.Error(err)
		}
		ids[id] = true
	}
	if len(ids) != 1 {
		t.Errorf("the ids of the store are %v", ids)
	}
	b.Log()
	on(t, esa.Layout{Peer: esa.Rust5}, b.Executor)
	if log := b.Log(); strings.Count(log, "get many") != 1 || strings.Contains(log, "put") {
		t.Errorf("the second process makes the requests\n%s", log)
	}
}

// Two processes that open new tables at the same time agree.
func TestOrdersOfSettings(t *testing.T) {
	t.Parallel()
	offer, err := esa.Layout{Peer: esa.Rust5}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	plantest.EveryOrder(t, plantest.Orders{}, func(*plantest.Run) plantest.Scenario {
		open := func(x plan.Executor) error { return offer.Check(t.Context(), x, true) }
		tables := plantest.New(offer.Tables)
		return plantest.Scenario{Tables: tables, Processes: []func(plan.Executor) error{open, open}, End: func(x plan.Executor) error {
			tables.Log()
			if err := open(x); err != nil || strings.Contains(tables.Log(), "put") {
				return errors.Join(err, errors.New("there are no settings"))
			}
			return nil
		}}
	})
}

// Tables that do not belong together are refused, and the error names the tables. Nothing is written.
func TestSettingsThatDoNotFit(t *testing.T) {
	t.Parallel()
	config := func(store string, version plan.Item) plan.Item {
		it := plan.Item{"aid": plan.S("__config__"), "store_id": plan.S(store)}
		if version != nil {
			it["layout_version"] = version["v"]
		}
		return it
	}
	one, two := plan.Item{"v": plan.N(1)}, plan.Item{"v": plan.N(2)}
	for name, c := range map[string]struct {
		items [3]plan.Item // journal, snapshot, head
		want  []string
	}{
		"only the journal has them":      {[3]plan.Item{config("a", one), nil, nil}, []string{`"journal"`, `"snapshot"`}},
		"the snapshot table lacks them":  {[3]plan.Item{config("a", one), nil, config("a", one)}, []string{`"journal"`, `"snapshot"`}},
		"only the head has them":         {[3]plan.Item{nil, nil, config("a", one)}, []string{`"head"`, `"journal"`}},
		"the head is of another store":   {[3]plan.Item{config("a", one), config("a", one), config("b", one)}, []string{`"journal"`, `"head"`, `"a"`, `"b"`}},
		"another version":                {[3]plan.Item{config("a", two), config("a", two), config("a", two)}, []string{`"journal"`, "layout_version 2"}},
		"another version in one table":   {[3]plan.Item{config("a", one), config("a", two), config("a", one)}, []string{`"snapshot"`, "layout_version 2"}},
		"no version":                     {[3]plan.Item{config("a", one), config("a", nil), config("a", one)}, []string{`"snapshot"`, "layout_version"}},
		"an empty id":                    {[3]plan.Item{config("", one), config("", one), config("", one)}, []string{`"journal"`, "store_id"}},
		"a version that is not a number": {[3]plan.Item{config("a", plan.Item{"v": plan.S("1")}), config("a", one), config("a", one)}, []string{`"journal"`, "layout_version"}},
	} {
		offer, err := esa.Layout{Peer: esa.Rust5}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		for i, it := range c.items {
			if it == nil {
				continue
			}
			if sort := offer.Tables[i].Range.Name; sort != "" {
				it[sort] = plan.N(0)
			}
			put(t, x, offer.Tables[i].Name, it)
		}
		x.Log()
		err = offer.Check(t.Context(), x, false)
		if !errors.Is(err, annals.ErrInvalid) || strings.Contains(x.Log(), "put") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range c.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not name %s", name, err, text)
			}
		}
	}
}

func TestLayoutThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, s := range []esa.Snapshot{{Keep: -1}, {Keep: 1, Expire: -1}, {Expire: 1e9}, {Keep: 1, Expire: 1e8}} {
		if _, err := (esa.Layout{Peer: esa.Rust5, Snapshot: s}).Plan(); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
