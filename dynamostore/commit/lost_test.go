package commit_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/lost"
)

// A lost item is noticed, or the reads are as before. docs/layouts/commit.md has the exceptions.
func TestLostItems(t *testing.T) {
	t.Parallel()
	seven := func(b *plantest.Bench) {
		b.Append(0, "1", "2")
		b.Append(2, "3")
		b.Append(3, "4", "5")
		b.Append(5, "6")
		b.Append(6, "7")
	}
	save := func(n annals.SeqNr) func(*plantest.Bench) {
		return func(b *plantest.Bench) { b.Save(n, []byte("s")) }
	}
	remove := func(n annals.SeqNr) func(*plantest.Bench) {
		return func(b *plantest.Bench) { b.Delete(n) }
	}
	for _, index := range []string{"", "slices"} {
		for name, c := range map[string]struct {
			accepted []string // items whose loss is not noticed, beside the newest commit
			steps    []func(*plantest.Bench)
		}{
			"events":                                 {accepted: []string{"1"}},
			"a snapshot":                             {[]string{"1"}, []func(*plantest.Bench){save(3)}},
			"a snapshot within a commit":             {[]string{"1"}, []func(*plantest.Bench){save(4)}},
			"a snapshot, its events deleted":         {[]string{"3.5"}, []func(*plantest.Bench){save(3), remove(3)}},
			"a snapshot, a commit divided":           {[]string{"4.5"}, []func(*plantest.Bench){save(4), remove(4)}},
			"two snapshots, events deleted":          {nil, []func(*plantest.Bench){save(3), save(5), remove(3)}},
			"a delete":                               {nil, []func(*plantest.Bench){remove(4)}},
			"a delete behind the snapshot":           {[]string{"3.5"}, []func(*plantest.Bench){save(3), remove(5)}},
			"a snapshot of the last number, deletes": {[]string{"7.5"}, []func(*plantest.Bench){save(7), remove(7)}},
			"a snapshot in parts":                    {[]string{"3.5"}, []func(*plantest.Bench){func(b *plantest.Bench) { b.Save(3, noise(900_000)) }, remove(3)}},
		} {
			t.Run(fmt.Sprintf("%s, index %q", name, index), func(t *testing.T) {
				t.Parallel()
				plantest.LoseAnyRow(t, commit.Layout{Index: index}, id, func(b *plantest.Bench) {
					seven(b)
					for _, step := range c.steps {
						step(b)
					}
				}, func(_ string, it plan.Item) plantest.Unnoticed {
					switch seq := plan.KeyText(it["seq"]); {
					case seq == "7":
						return plantest.Unnoticed{Why: "the newest commit", Strict: true}
					case slices.Contains(c.accepted, seq) && seq == "1":
						return plantest.Unnoticed{Why: "the first commit"}
					case slices.Contains(c.accepted, seq):
						return plantest.Unnoticed{Why: "a snapshot whose events are deleted", Strict: true}
					}
					return plantest.Unnoticed{}
				})
			})
		}
	}
}

// The events of a state are as complete as others. Nothing tells that there was a state.
func TestLostItemsOfAState(t *testing.T) {
	t.Parallel()
	plantest.LoseAnyRow(t, commit.Layout{}, id, func(b *plantest.Bench) {
		for n := range annals.SeqNr(4) {
			event := plantest.Event("e")
			b.Put(n, func(w *plan.StateWrite) { w.Event = &event })
		}
	}, func(_ string, it plan.Item) plantest.Unnoticed {
		switch plan.KeyText(it["seq"]) {
		case "0":
			return plantest.Unnoticed{Why: "a state", Strict: true}
		case "1":
			return plantest.Unnoticed{Why: "the first commit"}
		case "4":
			return plantest.Unnoticed{Why: "the newest commit", Strict: true}
		}
		return plantest.Unnoticed{}
	})
}

// Queries of all types need the item that lists them. A running store may write it again, without what it had.
func TestLostSettings(t *testing.T) {
	t.Parallel()
	offer, err := commit.Layout{Index: "slices"}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	if err := offer.Check(t.Context(), x, true); err != nil {
		t.Fatal(err)
	}
	c, settings := offer.On(x), x.Items("annals")
	append := func(id annals.PersistenceID) {
		if _, err := c.Journal.Append(t.Context(), annals.Commit{ID: id, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("e")}}); err != nil {
			t.Fatal(err)
		}
	}
	query := func() (events int, failed error) {
		for _, failed = range c.Queries.Events(t.Context(), annals.Filter{}) {
			events++
		}
		return events, failed
	}
	append("A|1")
	if n, err := query(); n != 1 || err != nil {
		t.Errorf("%d events, %v", n, err)
	}
	table := offer.Tables[0]
	if err := x.DeleteAll(t.Context(), table.Name, []plan.Item{table.KeyOf(settings[0])}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []annals.PersistenceID{"A|2", "B|1"} { // the second is of a new type
		append(id)
		if n, err := query(); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("without the settings: %d events, %v", n, err)
		}
	}
}

// A recovery that reads forwards, because it cannot keep everything, notices a lost commit, too.
func TestLostCommitOfALongTail(t *testing.T) {
	t.Parallel()
	offer, err := commit.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	e, x := newEntity(t.Context(), offer), plantest.New(offer.Tables)
	for after := range annals.SeqNr(45) {
		c := annals.Commit{ID: id, After: after, WriteID: plantest.WriteID(byte(after)), Events: []annals.NewEvent{plantest.Event(string(bytes.Repeat([]byte("x"), 400_000)))}}
		if _, err := offer.On(x).Journal.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.save(x, 2, 1, false); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"3", "20", "44"} {
		less := x.Clone()
		if err := less.DeleteAll(t.Context(), "annals", []plan.Item{key(lost)}); err != nil {
			t.Fatal(err)
		}
		_, err := offer.On(less).Recover(t.Context(), id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		if !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("without commit %s: %v", lost, err)
		}
	}
}

// A lost item of what a projection has handled makes it handle events again. It does not skip any.
func TestLostProgress(t *testing.T) {
	t.Parallel()
	offer, err := commit.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	check := lost.Progress(t, offer.On(x).Offsets)
	table := offer.Tables[0]
	for i, it := range x.Items(table.Name) {
		check(plan.QuoteKey(table.KeyOf(it)), offer.On(x.Without(table.Name, i)).Offsets)
	}
}
