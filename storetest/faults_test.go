package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// forgetting is RunFaults' faults for a forgetful store: answers get lost above it.
func forgetting(_ testing.TB, s annals.Store) func() map[string]int {
	return func() map[string]int { return map[string]int{"answers lost": int(s.(*forgetful).writes.Load() / 3)} }
}

func TestFaults(t *testing.T) {
	t.Parallel()
	run(t, Config{Open: func(testing.TB) annals.Store { return &forgetful{Store: memstore.New()} }}, faultCases(forgetting)[:2])
}

// Stores that do what the counters are for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		open   func() annals.Store
		counts string
	}{
		"takes its own write for another's": {func() annals.Store { return noWriteIDs{memstore.New()} }, "conflicts of writes that landed"},
		"stores a write again":              {func() annals.Store { return noConflicts{noWriteIDs{memstore.New()}} }, "writes stored twice"},
		"acknowledges before it stores":     {func() annals.Store { return hasty{memstore.New()} }, "acknowledged writes lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Config{Open: func(testing.TB) annals.Store { return &forgetful{Store: m.open()} }, Short: true}
			failures := record(t, func(tb testing.TB) { faultCases(forgetting)[0].run(newHarness(tb, c.probe(t))) })
			if all := strings.Join(failures, "\n"); !strings.Contains(all, m.counts) || !strings.Contains(all, "no order explains") {
				t.Errorf("got %.2000s\nwant %q and a history that is not linearizable", all, m.counts)
			}
		})
	}
}

// hasty acknowledges appends that it does not store, now and then.
type hasty struct{ annals.Store }

func (s hasty) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
		last, err := j.LastSeqNr(ctx, c.ID)
		if n := annals.SeqNr(len(c.Events)); err == nil && last == c.After && n == 2 {
			return annals.Receipt{SeqNr: c.After + n}, nil
		}
		return j.Append(ctx, c)
	}}
}
