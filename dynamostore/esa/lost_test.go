package esa

import (
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Why a lost row can go unnoticed, as in docs/layouts/esa.md.
var (
	lostWithGaps = plantest.Unnoticed{Why: "Gaps: a number without an event is taken for unused"}
	lostUnused   = plantest.Unnoticed{Why: "the newest event, behind deleted numbers of which a library had left some unused", Strict: true}
	lostHead     = plantest.Unnoticed{Why: "the head of an entity that has no other rows, or only those that deletes have left", Strict: true}
)

// resolved is a KeyResolver whose sort keys have no order.
var resolved = KeyResolver{
	PartitionKey: func(_, value string, _ int) string { return "p" + value },
	SortKey:      func(entityType, value string, n annals.SeqNr) string { return sortKey(entityType, value, n*7919%1009) },
}

func TestLoseAnyRow(t *testing.T) {
	t.Parallel()
	with := func(l Layout, change func(*Layout)) Layout {
		change(&l)
		return l
	}
	layouts := map[string]Layout{
		"shared": shared, "write ids": repeatable,
		"copies": with(shared, func(l *Layout) { l.Peer, l.Snapshot = JS3, Snapshot{Keep: 2} }), "write ids, copies": with(repeatable, func(l *Layout) { l.Snapshot.Keep = 2 }),
		"gaps": with(shared, func(l *Layout) { l.Journal.Gaps = true }), "write ids, gaps": with(repeatable, func(l *Layout) { l.Journal.Gaps = true }),
		"value": with(shared, func(l *Layout) { l.Peer, l.BareAID = Rust, true }), "keys": with(shared, func(l *Layout) { l.Keys = resolved }),
	}
	for name, peer := range map[string]Peer{"js": JS, "java": Java, "rust 3": Rust3, "seed": Seed} { // their heads have other attributes
		layouts[name] = with(shared, func(l *Layout) { l.Peer = peer })
	}
	save := func(n annals.SeqNr) func(*plantest.Bench) {
		return func(b *plantest.Bench) {
			if err := b.Snapshots.Save(b.Context(), *snapshotOf(b.ID, n)); err != nil {
				b.Fatal(err)
			}
		}
	}
	deletes := func(to annals.SeqNr) func(*plantest.Bench) { return func(b *plantest.Bench) { b.Delete(to) } }
	for name, l := range layouts {
		library := func(version annals.SeqNr, numbers ...annals.SeqNr) func(*plantest.Bench) {
			return func(b *plantest.Bench) {
				for i, n := range numbers {
					var state *annals.Snapshot
					if version == 0 && i == 0 {
						state = snapshotOf(b.ID, n)
					}
					peerWrites(b, l, version+annals.SeqNr(i), n, state)
				}
			}
		}
		for what, steps := range map[string][]func(*plantest.Bench){
			"events":                       {wrote(23)},
			"120 events":                   {wrote(120)},
			"a snapshot":                   {wrote(23), save(12)},
			"deletes":                      {wrote(23), deletes(7)},
			"a snapshot, and deletes":      {wrote(23), save(12), save(15), deletes(14)},
			"deletes behind the snapshot":  {wrote(23), save(12), deletes(20)},
			"a deleted snapshot":           {wrote(12), save(8), save(9), func(b *plantest.Bench) { b.Prune(annals.SnapshotCriteria{MinSeqNr: 9}) }},
			"all is deleted":               {wrote(5), deletes(5)},
			"all is deleted, and is saved": {wrote(5), save(5), deletes(5)},
			"unused numbers":               {library(0, 1, 2, 4, 5, 9)},
			"unused numbers, deleted":      {library(0, 1, 2, 4, 5, 9), deletes(4)},
			"unused numbers, a snapshot":   {library(0, 1, 2, 4, 5, 9), save(4)},
			"unused first numbers":         {library(0, 5, 6, 7)},
		} {
			if strings.HasPrefix(what, "unused numbers,") && !l.Journal.Gaps {
				continue
			}
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				id := annals.PersistenceID("Thread|42")
				plantest.LoseAnyRow(t, l, id, func(b *plantest.Bench) {
					for _, of := range []annals.PersistenceID{"Other|42", id} { // with the form Value both have the same aggregate id
						b.ID = of
						for _, step := range steps {
							step(b)
						}
					}
				}, func(table string, it plan.Item) plantest.Unnoticed {
					switch key := plan.KeyText(it[attrSort]); {
					case strings.HasPrefix(key, "Other-"):
					case table == "journal" && what == "unused numbers, deleted" && key == "Thread-42-9":
						return lostUnused
					case table == "journal" && l.Journal.Gaps && it[attrAID] != nil:
						return lostWithGaps
					case key == "Thread-42-0" && table == "snapshot" && (what == "all is deleted" || what == "all is deleted, and is saved") && l.Snapshot.Keep == 0:
						return lostHead
					}
					return plantest.Unnoticed{}
				})
			})
		}
	}
}
