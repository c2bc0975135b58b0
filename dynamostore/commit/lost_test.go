package commit_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
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
			replaces bool // a snapshot is all that is left of deleted events
			steps    []func(*plantest.Bench)
		}{
			"events":                                 {},
			"a snapshot":                             {false, []func(*plantest.Bench){save(3)}},
			"a snapshot within a commit":             {false, []func(*plantest.Bench){save(4)}},
			"a snapshot, its events deleted":         {true, []func(*plantest.Bench){save(3), remove(3)}},
			"a snapshot, a commit divided":           {true, []func(*plantest.Bench){save(4), remove(4)}},
			"two snapshots, events deleted":          {false, []func(*plantest.Bench){save(3), save(5), remove(3)}},
			"a delete":                               {false, []func(*plantest.Bench){remove(4)}},
			"a delete behind the snapshot":           {true, []func(*plantest.Bench){save(3), remove(5)}},
			"a snapshot of the last number, deletes": {true, []func(*plantest.Bench){save(7), remove(7)}},
			"a snapshot in parts":                    {true, []func(*plantest.Bench){func(b *plantest.Bench) { b.Save(3, noise(900_000)) }, remove(3)}},
		} {
			t.Run(fmt.Sprintf("%s, index %q", name, index), func(t *testing.T) {
				t.Parallel()
				plantest.LoseAnyRow(t, commit.Layout{Index: index}, id, func(b *plantest.Bench) {
					seven(b)
					for _, step := range c.steps {
						step(b)
					}
				}, func(_ string, it plan.Item) string {
					switch seq := plan.KeyText(it["seq"]); {
					case seq == "7":
						return "the newest commit"
					case c.replaces && it["save"] != nil:
						return "a snapshot whose events are deleted"
					}
					return ""
				})
			})
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
