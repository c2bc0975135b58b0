package akka0_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// What a lost row does, as docs/layouts/akka0.md has it.
func TestLoseAnyRow(t *testing.T) {
	t.Parallel()
	for _, permanent := range []bool{false, true} {
		for _, shards := range []int{3, 20} {
			for _, deleted := range []annals.SeqNr{0, 4, 12} {
				t.Run(fmt.Sprintf("permanent %v, %d shards, deleted to %d", permanent, shards, deleted), func(t *testing.T) {
					t.Parallel()
					plantest.LoseAnyRow(t, akka0.Layout{Table: table, SequenceShards: shards, Permanent: permanent}, "a", func(b *plantest.Bench) {
						for after := annals.SeqNr(0); after < 12; after += 2 {
							b.Append(after, "e", "e")
						}
						b.Delete(deleted)
					}, func(_ string, it plan.Item) plantest.Unnoticed {
						n, key := annals.SeqNr(0), plan.KeyText(it["key"])
						if _, err := fmt.Sscanf(key, "journal-P-a-%d", &n); err == nil && n > deleted {
							return plantest.Unnoticed{Why: "an event"}
						}
						if permanent && deleted == 12 && key == fmt.Sprint("journal-SH-a-", 12%shards) {
							return plantest.Unnoticed{Why: "the counter of the last number, of which the event is removed", Strict: true}
						}
						return plantest.Unnoticed{}
					})
				})
			}
		}
	}
}

// A counter with a number that is far too high is an error of reads after some requests, however high it is.
func TestCounterFarAbove(t *testing.T) {
	t.Parallel()
	for _, n := range []annals.SeqNr{100_000_000, annals.MaxSeqNr} {
		b := newBench(t, akka0.Layout{SequenceShards: 10})
		b.fill("a", 8)
		b.put(plan.Item{"key": plan.S(fmt.Sprint("journal-SH-a-", n%10)), "sequenceNr": plan.N(n)})
		b.x.Log()
		var got []annals.SeqNr
		var failed error
		for e, err := range b.Journal.Replay(t.Context(), "a", 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				got = append(got, e.SeqNr)
			}
		}
		if len(got) != 8 || !errors.Is(failed, annals.ErrCorrupt) {
			t.Errorf("replayed %v, %v", got, failed)
		}
		if _, err := b.Recover(t.Context(), "a", nil, func(annals.Event) error { return nil }); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("recovered: %v", err)
		}
		if err := b.Journal.DeleteTo(t.Context(), "a", annals.MaxSeqNr); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("deleted: %v", err)
		}
		if requests := strings.Count(b.x.Log(), "get all events"); requests > 400 {
			t.Errorf("%d requests", requests)
		}
	}
}

// An entity that begins with a number far above 1 is read in few requests.
func TestBeginsFarAbove(t *testing.T) {
	t.Parallel()
	const begin = 100_000_000
	b := newBench(t, akka0.Layout{SequenceShards: 10})
	b.must(b.SkipTo(t.Context(), "a", 0, begin))
	b.wantRead("a", begin, "[]")
	b.must(b.append("a", begin+1, begin+12))
	b.x.Log()
	b.wantRead("a", begin+12, fmt.Sprint(counted(begin+1, begin+12)))
	if requests := strings.Count(b.x.Log(), "get "); requests > 300 {
		t.Errorf("%d requests", requests)
	}
	b.must(b.Journal.DeleteTo(t.Context(), "a", begin+5))
	b.wantRead("a", begin+12, fmt.Sprint(counted(begin+6, begin+12)))
}

func counted(from, to annals.SeqNr) (all []annals.SeqNr) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// wantRead checks what a recovery reads.
func (b bench) wantRead(id annals.PersistenceID, last annals.SeqNr, want string) {
	b.Helper()
	all := []annals.SeqNr{}
	got, err := b.Recover(b.Context(), id, nil, func(e annals.Event) error { all = append(all, e.SeqNr); return nil })
	if fmt.Sprint(all) != want || got != last || err != nil {
		b.Errorf("recovered %v up to %d, %v, want %s up to %d", all, got, err, want, last)
	}
}
