package akka0_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// What the plugin does wrong, as recorded, is right here.
func TestDefects(t *testing.T) {
	t.Parallel()
	tests := map[string]func(b bench){
		"hole-ends-replay": func(b bench) {
			b.fill("d", 1005)
			b.must(akka0.Delete(b.Context(), plantest.Store(b), "d", true, 3))
			b.wantRange("d", 1, annals.MaxSeqNr, 1004, 1, 1005)
			b.wantRange("d", 4, annals.MaxSeqNr, 1002, 4, 1005)
		},
		"no-hole": func(b bench) {
			b.fill("d", 1005)
			b.wantRange("d", 1, annals.MaxSeqNr, 1005, 1, 1005)
		},
		"first-thousand-deleted": func(b bench) {
			b.fill("d", 1005)
			b.deleteTo("d", 1000, true)
			b.wantRange("d", 1, annals.MaxSeqNr, 5, 1001, 1005)
		},
		"to-missing": func(b bench) {
			b.fill("d", 10)
			b.must(akka0.Delete(b.Context(), plantest.Store(b), "d", true, 5))
			b.wantRange("d", 1, 5, 4, 1, 4)
		},
		"confirmations-mixed": func(b bench) {
			b.fill("d", 5)
			b.must(akka0.Confirm(b.Context(), plantest.Store(b), "d", map[annals.SeqNr][]string{2: {"c1"}, 4: {"c2"}}))
			if got, want := b.messages("d", 1, 5), `["1" "2 [c1]" "3" "4 [c2]" "5"]`; got != want {
				b.Errorf("read %s, want %s", got, want)
			}
		},
		"permanent-delete-no-sl": func(b bench) {
			b.fill("d", 6)
			b.deleteTo("d", 2, true)
			if n, _ := plan.Number(b.item("journal-SL-d-2"), "sequenceNr"); n != 2 {
				b.Errorf("the counter of event 2 has %d after a permanent delete", n)
			}
			b.deleteTo("d", 4, false)
			for n := annals.SeqNr(1); n <= 4; n++ {
				if stored, _ := plan.Number(b.item(fmt.Sprint("journal-SL-d-", n)), "sequenceNr"); annals.SeqNr(stored) != n {
					b.Errorf("the counter of event %d has %d", n, stored)
				}
			}
			for _, key := range []string{"journal-P-d-0", "journal-P-d-1", "journal-P-d-2", "journal-SL-d-0"} {
				if b.item(key) != nil {
					b.Errorf("there is an item %s", key)
				}
			}
		},
		"mark-delete-ghosts": func(b bench) {
			b.deleteTo("d", 3, false)
			b.must(akka0.Delete(b.Context(), plantest.Store(b), "d", false, 1, 2))
			b.must(akka0.Confirm(b.Context(), plantest.Store(b), "d", map[annals.SeqNr][]string{1: {"c"}}))
			if items := b.x.Items(table); len(items) != 0 {
				b.Errorf("there are %d items", len(items))
			}
		},
		"two-writers": func(b bench) {
			b.must(b.append("d", 1, 2))
			if err := b.append("d", 2, 2); !errors.Is(err, annals.ErrConflict) {
				b.Errorf("the second write of event 2: %v", err)
			}
		},
		"few-shards-one-batch": func(b bench) {
			b = newBench(b.T, akka0.Layout{SequenceShards: 3})
			b.must(b.append("d", 1, 6))
			b.wantRange("d", 1, annals.MaxSeqNr, 6, 1, 6)
			if last := b.plugin().highest("d"); last != 6 {
				b.Errorf("the plugin reads %d as the last number", last)
			}
		},
	}
	known := 0
	for _, d := range scenarios(t)["defects"].defects {
		test := tests[d.ID]
		if known++; test == nil {
			t.Errorf("there is no test of %s", d.ID)
			continue
		}
		t.Run(d.ID, func(t *testing.T) {
			t.Parallel()
			test(newBench(t, akka0.Layout{}))
		})
	}
	if known != len(tests) {
		t.Errorf("%d defects are recorded, %d are tested", known, len(tests))
	}
}

// wantRange checks the number of events replayed, the first and the last of them.
func (b bench) wantRange(id annals.PersistenceID, from, to annals.SeqNr, count int, first, last annals.SeqNr) {
	b.Helper()
	var all []annals.SeqNr
	for e, err := range b.Journal.Replay(b.Context(), id, from, to) {
		b.must(err)
		all = append(all, e.SeqNr)
	}
	if len(all) != count || all[0] != first || all[count-1] != last {
		b.Errorf("replay from %d to %d: %d events, %v", from, to, len(all), all)
	}
}

// An event whose counter the plugin has lost is read, is not overwritten, and its number is not used again when it is deleted.
func TestLostCounter(t *testing.T) {
	t.Parallel()
	for _, permanent := range []bool{false, true} {
		b := newBench(t, akka0.Layout{SequenceShards: 10, Permanent: permanent})
		b.fill("d", 8)
		b.remove("journal-SH-d-7")
		b.remove("journal-SH-d-8")
		b.wantRange("d", 1, annals.MaxSeqNr, 8, 1, 8)
		if err := b.append("d", 7, 7); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("an append over event 7: %v", err)
		}
		b.must(b.Journal.DeleteTo(t.Context(), "d", 8))
		if last := b.last("d"); last != 8 {
			t.Errorf("permanent %v: the last number is %d after a delete of all events, want 8", permanent, last)
		}
		b.must(b.append("d", 9, 9))
	}
	b := newBench(t, akka0.Layout{SequenceShards: 10})
	b.fill("d", 8)
	b.remove("journal-SH-d-8")
	b.must(akka0.Delete(t.Context(), plantest.Store(b), "d", true, 8))
	if last := b.last("d"); last != 8 {
		t.Errorf("the last number is %d after a delete of event 8", last)
	}
}

// A writer that has not noticed that others have stored events, and removed them, does not use their numbers again, also not where several events of
// its commit have the same counter.
func TestStaleWriterWithFewShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 3, 1000} {
		for to := annals.SeqNr(6); to <= 9; to++ {
			b := newBench(t, akka0.Layout{SequenceShards: shards, Permanent: true})
			b.fill("d", to)
			b.must(b.Journal.DeleteTo(t.Context(), "d", to))
			if err := b.append("d", 6, 10); !errors.Is(err, annals.ErrConflict) { // after 5
				t.Errorf("%d shards, %d events were stored and removed: %v", shards, to, err)
			}
			b.must(b.append("d", to+1, to+5))
		}
	}
}
