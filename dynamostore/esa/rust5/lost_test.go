package rust5_test

import (
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// The reasons why a lost item can go unnoticed, as in docs/layouts/esa.md.
var (
	lostWithGaps = plantest.Unnoticed{Why: "Gaps: a number without an event is taken for unused, unless it is of the last commit"}
	lostSnapshot = plantest.Unnoticed{Why: "the current snapshot, when events are deleted", Strict: true}
	lostHead     = plantest.Unnoticed{Why: "the head of an entity that has no other items", Strict: true}
)

func TestLoseAnyRow(t *testing.T) {
	t.Parallel()
	layouts := map[string]esa.Layout{"plain": {}, "write ids": {WriteIDs: true}, "copies": {Snapshot: esa.Snapshot{Keep: 2}}, "copies that expire": {Snapshot: esa.Snapshot{Keep: 1, Expire: time.Hour}},
		"gaps": {Journal: esa.Journal{Gaps: true}}}
	commits := func(sizes ...int) func(*plantest.Bench) {
		return func(b *plantest.Bench) {
			after := annals.SeqNr(0)
			for _, size := range sizes {
				b.Append(after, make([]string, size)...)
				after += annals.SeqNr(size)
			}
		}
	}
	save := func(n annals.SeqNr) func(*plantest.Bench) {
		return func(b *plantest.Bench) { b.Save(n, []byte("s")) }
	}
	deletes := func(to annals.SeqNr) func(*plantest.Bench) { return func(b *plantest.Bench) { b.Delete(to) } }
	skips := func(b *plantest.Bench) {
		if err := b.SkipTo(b.Context(), b.ID, 0, 7); err != nil {
			b.Fatal(err)
		}
	}
	const last = 6 // the number before the last commit
	for name, l := range layouts {
		l.Peer = esa.Rust5
		for what, steps := range map[string][]func(*plantest.Bench){
			"events":                       {commits(1, 2, 3, 2)},
			"a snapshot":                   {commits(1, 2, 3, 2), save(2), save(4)},
			"deletes":                      {commits(1, 2, 3, 2), deletes(3)},
			"a snapshot, and deletes":      {commits(1, 2, 3, 2), save(4), deletes(3)},
			"deletes behind the snapshot":  {commits(1, 2, 3, 2), save(2), save(3), deletes(5)},
			"a deleted snapshot":           {commits(1, 2, 3, 2), save(2), save(4), func(b *plantest.Bench) { b.Prune(annals.SnapshotCriteria{MinSeqNr: 4}) }},
			"all is deleted":               {commits(1, 2, 3, 2), deletes(8)},
			"all is deleted, and is saved": {commits(1, 2, 3, 2), save(8), deletes(8)},
			"skipped numbers":              {skips, func(b *plantest.Bench) { b.Append(7, "a") }},
			"only skipped numbers":         {skips},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				plantest.LoseAnyRow(t, l, entityID, func(b *plantest.Bench) {
					for _, step := range steps {
						step(b)
					}
				}, func(table string, it plan.Item) plantest.Unnoticed {
					switch n, _ := plan.Number(it, "seq_nr"); {
					case table == "journal" && l.Journal.Gaps && n <= last:
						return lostWithGaps
					case table == "snapshot" && plan.KeyText(it["skey"]) == "0" && (what == "a snapshot, and deletes" || what == "deletes behind the snapshot" || what == "all is deleted, and is saved"):
						return lostSnapshot
					case table == "head" && (what == "all is deleted" || what == "only skipped numbers"):
						return lostHead
					}
					return plantest.Unnoticed{}
				})
			})
		}
	}
}
