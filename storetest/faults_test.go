package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// forgetting is the Faults of a forgetful store, which loses answers.
func forgetting(_ testing.TB, s annals.Store) func() map[string]int {
	return func() map[string]int { return map[string]int{"answers lost": int(s.(*forgetful).writes.Load() / 3)} }
}

func TestFaults(t *testing.T) {
	t.Parallel()
	run(t, Config{Open: func(testing.TB) annals.Store { return newForgetful(memstore.New()) }, Faults: forgetting}, faultCases()[:2])
}

// Each kind of wrong answer is counted under its name.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		open   func() annals.Store
		counts string
	}{
		"takes its own write for another writer's": {func() annals.Store { return around(memstore.New(), noWriteIDs) }, falseConflicts},
		"stores a write again":                     {func() annals.Store { return around(around(memstore.New(), noWriteIDs), noConflicts) }, "writes stored twice"},
		"acknowledges before it stores":            {func() annals.Store { return journaled{memstore.New(), hasty} }, "acknowledged writes lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Config{Open: func(testing.TB) annals.Store { return newForgetful(m.open()) }, Short: true, Faults: forgetting}
			failures := record(t, func(tb testing.TB) { faultCases()[0].run(newHarness(tb, c.probe(t))) })
			if all := strings.Join(failures, "\n"); !strings.Contains(all, m.counts) || !strings.Contains(all, "no order explains") {
				t.Errorf("got %.2000s\nwant %q and a history that is not linearizable", all, m.counts)
			}
		})
	}
}

// Config.Naive passes when the cases find false conflicts, and fails otherwise.
func TestNaive(t *testing.T) {
	t.Parallel()
	naive := Config{Open: func(testing.TB) annals.Store { return newForgetful(around(memstore.New(), noWriteIDs)) }, Short: true, Only: Parts{Journal: true}, Faults: forgetting, Naive: true}
	Run(t, naive)

	sound := Config{Open: func(testing.TB) annals.Store { return newForgetful(memstore.New()) }, Short: true, Faults: forgetting}
	failures := record(t, func(tb testing.TB) { naiveCases()[0].run(newHarness(tb, sound.probe(t))) })
	if len(failures) != 1 || !strings.Contains(failures[0], falseConflicts) {
		t.Errorf("a store that recognises its own writes: got failures %q, want one", failures)
	}
}

// hasty acknowledges some appends without storing them.
func hasty(j annals.Journal) annals.Journal {
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
		last, err := j.LastSeqNr(ctx, c.ID)
		if n := annals.SeqNr(len(c.Events)); err == nil && last == c.After && n == 2 {
			return annals.Receipt{SeqNr: c.After + n}, nil
		}
		return j.Append(ctx, c)
	}}
}
