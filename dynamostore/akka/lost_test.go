package akka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// What a lost row does, as docs/layouts/akka.md has it.
func TestLoseAnyRow(t *testing.T) {
	t.Parallel()
	const last = 208
	for _, gaps := range []bool{false, true} {
		for _, deleted := range []annals.SeqNr{0, 3, 99, 150, 200, last} {
			for _, saved := range []annals.SeqNr{0, 150, last} {
				t.Run(fmt.Sprintf("with Gaps and old format %v, deleted to %d, snapshot %d", gaps, deleted, saved), func(t *testing.T) {
					t.Parallel()
					plantest.LoseAnyRow(t, Layout{Journal: Journal{SequenceShards: 4, Gaps: gaps, Old: gaps}, Snapshot: Snapshot{Old: gaps}}, entityID, func(b *plantest.Bench) {
						b.Append(0, "1")
						b.Append(1, "2", "3", "4")
						for n := annals.SeqNr(4); n < 98; n++ {
							b.Append(n, "e")
						}
						b.Append(98, "99", "100", "101")
						for n := annals.SeqNr(101); n < last-1; n++ {
							b.Append(n, "e")
						}
						b.Append(last-1, "e")
						if saved > 0 {
							b.Save(saved, []byte("state"))
						}
						b.Delete(deleted)
					}, func(table string, it plan.Item) plantest.Unnoticed {
						par, n := plan.KeyText(it[attrPar]), number(it)
						switch {
						case table != journalTable && deleted > 0:
							return plantest.Unnoticed{Why: "the newest snapshot", Strict: true}
						case n == last && deleted < last:
							return plantest.Unnoticed{Why: "the last event", Strict: true}
						case gaps && (strings.Contains(par, akkakeys.Events) && n > deleted || strings.Contains(par, akkakeys.Low)):
							return plantest.Unnoticed{Why: "an event, with Gaps, or the mark of deleted ones"}
						case strings.Contains(par, akkakeys.Events) && n > deleted && it[attrCount] != nil:
							return plantest.Unnoticed{Why: "an event of a commit of several events, whose writer has stored nothing else"}
						}
						return plantest.Unnoticed{}
					})
				})
			}
		}
	}
}

// number returns the number of an event's item; 0 for other items.
func number(it plan.Item) annals.SeqNr {
	par := plan.KeyText(it[attrPar])
	if !strings.Contains(par, akkakeys.Events) {
		return 0
	}
	var group annals.SeqNr
	_, _ = fmt.Sscan(par[strings.LastIndexByte(par, '-')+1:], &group)
	n, _ := plan.Number(it, attrNum)
	return group*perGroup + annals.SeqNr(n)
}

// A commit over the end of a group, between the reads of the two groups, in both orders: groups are read in parallel.
func TestCommitOverGroupsWhileRead(t *testing.T) {
	t.Parallel()
	for _, size := range []annals.SeqNr{2, 99} {
		for _, backward := range []bool{false, true} {
			x, j := filled(t, 98, 1)
			half := &halves{x, backward, func() {
				c := annals.Commit{ID: entityID, After: 98, WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{plantest.Event("e")}, int(size))}
				if _, err := onto(j, x).Append(t.Context(), c); err != nil {
					t.Error(err)
				}
			}}
			var got annals.SeqNr
			last, err := onto(j, half).Recover(t.Context(), entityID, nil, func(e annals.Event) error { got = e.SeqNr; return nil })
			if err != nil || last != got || last != 98+size {
				t.Errorf("a commit of %d events, backward %v: recovered to %d, the last number is %d, %v", size, backward, got, last, err)
			}
		}
	}
}

// halves is an executor that does something between the first query of the first series and the others, which it reads before the first one
// when backward is set.
type halves struct {
	*plantest.Executor
	backward  bool
	meanwhile func()
}

func (h *halves) Series(ctx context.Context, queries iter.Seq[plan.Query], ahead int) iter.Seq2[plan.Page, error] {
	all := slices.Collect(queries)
	parts := [][]plan.Query{all[:1], all[1:]}
	order := []int{0, 1}
	if h.backward {
		order = []int{1, 0}
	}
	var pages [2][]plan.Page
	var failed error
	for i, part := range order {
		if i == 1 && h.meanwhile != nil {
			h.meanwhile()
			h.meanwhile = nil
		}
		for p, err := range h.Executor.Series(ctx, slices.Values(parts[part]), 0) {
			p.Query += part
			pages[part], failed = append(pages[part], p), errors.Join(failed, err)
		}
	}
	return func(yield func(plan.Page, error) bool) {
		for _, p := range slices.Concat(pages[0], pages[1]) {
			if !yield(p, failed) {
				return
			}
		}
	}
}

// A replay that ends within the entity ends with the last number asked for.
func TestLostAtTheEndOfAReplay(t *testing.T) {
	t.Parallel()
	x, j := filled(t, 103, 1)
	for _, n := range []annals.SeqNr{5, 6, 99, 100, 102} {
		if err := x.DeleteAll(t.Context(), journalTable, []plan.Item{j.key(entityID, n)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to annals.SeqNr
		corrupt  bool
	}{{1, 4, false}, {1, 5, true}, {5, 5, true}, {6, 6, true}, {7, 98, false}, {7, 99, true}, {100, 100, true}, {101, 102, true}, {103, 200, false}, {104, 200, false}} {
		var failed error
		for _, failed = range onto(j, x).Replay(t.Context(), entityID, c.from, c.to) {
			continue
		}
		if errors.Is(failed, annals.ErrCorrupt) != c.corrupt || failed != nil && !c.corrupt {
			t.Errorf("replay from %d to %d: %v", c.from, c.to, failed)
		}
	}
}

// A count or an index that is damaged does not hide a batch, when the writer of the batch has stored something else.
func TestDamagedBatch(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]types.AttributeValue{
		"a count too high":     {attrCount: plan.N(3)},
		"a count far too high": {attrCount: plan.N(1_000_000_000_000)},
		"a count too low":      {attrCount: plan.N(1)},
		"an index too high":    {attrIndex: plan.N(2)},
		"an index too low":     {attrIndex: plan.N(0)},
		"no index and count":   {attrIndex: nil, attrCount: nil},
	} {
		x, j := filled(t, 10, 1)
		p := &plugin{x: x, shards: 3, next: 11, writer: "p"}
		p.write(1)
		p.write(3)
		p.write(1)
		it, _, _ := x.Get(t.Context(), plan.Get{Table: journalTable, Key: j.key(entityID, 13)})
		it = maps.Clone(it)
		for name, v := range change {
			if it[name] = v; v == nil {
				delete(it, name)
			}
		}
		p.put(it)
		x.Log()
		_, err := onto(j, x).Recover(t.Context(), entityID, nil, func(annals.Event) error { return nil })
		if requests := strings.Count(x.Log(), "\nquery "); !errors.Is(err, annals.ErrCorrupt) || requests > 20 {
			t.Errorf("%s: recovered, %v, in %d queries", name, err, requests)
		}
	}
}

// Tables of the plugin: where a writer goes on behind a batch, no event of the batch is lost without an error. Single events that are lost look
// like those that the plugin could not store: these numbers are unused, and nothing proves it.
func TestLostInPluginTables(t *testing.T) {
	t.Parallel()
	offer, err := three.Plan()
	if err != nil {
		t.Fatal(err)
	}
	full := plantest.New(offer.Tables)
	p := &plugin{x: full, shards: 3}
	for writer := range 3 {
		p.start(fmt.Sprint("writer ", writer))
		for _, size := range []int{1, 3, 1, 1, 60, 2, 1} {
			p.write(size)
		}
	}
	batches, single := 0, 0
	for _, lost := range full.Items(journalTable) {
		n := number(lost)
		if n == 0 || n == p.next-1 {
			continue
		}
		x := full.Clone()
		if err := x.DeleteAll(t.Context(), journalTable, []plan.Item{{attrPar: lost[attrPar], attrNum: lost[attrNum]}}); err != nil {
			t.Fatal(err)
		}
		r := &counted{reader: &reader{journal: offer.On(x).Journal.(*journal), id: entityID}}
		var failed error
		for _, failed = range driver.Replay(t.Context(), r, 1, annals.MaxSeqNr) {
			continue
		}
		switch corrupt := errors.Is(failed, annals.ErrCorrupt); {
		case !corrupt && failed != nil, corrupt == (lost[attrCount] == nil), !corrupt && r.unproven != 1:
			t.Errorf("event %d of %s is lost: %v, and %d numbers were accepted", n, plan.KeyText(lost[attrCount]), failed, r.unproven)
		case corrupt:
			batches++
		default:
			single++
		}
	}
	if batches != 3*65 || single != 3*4-1 {
		t.Errorf("lost were %d events of batches, and %d single ones", batches, single)
	}
}

// counted counts the numbers that are taken for unused without proof.
type counted struct {
	*reader
	unproven annals.SeqNr
}

func (c *counted) Gap(ctx context.Context, from, to annals.SeqNr) (driver.Part, error) {
	p, err := c.reader.Gap(ctx, from, to)
	if p.Unused >= from && !p.Proven {
		c.unproven += p.Unused - from + 1
	}
	return p, err
}

// A delete behind a number that the plugin left unused is noticed: what was read around that number says nothing of later groups.
func TestDeleteBehindAnUnusedNumber(t *testing.T) {
	t.Parallel()
	offer, err := Layout{Journal: Journal{SequenceShards: 3, ReplayAhead: 1}}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{x: plantest.New(offer.Tables), shards: 3}
	p.start("p")
	for p.next < 600 {
		if p.next == 50 {
			p.next++
		}
		p.write(1)
	}
	j := offer.On(p.x).Journal.(*journal)
	var failed error
	for e, err := range j.Replay(t.Context(), entityID, 1, annals.MaxSeqNr) {
		if failed = err; e.SeqNr == 60 {
			err = onto(j, p.x).DeleteTo(t.Context(), entityID, annals.MaxSeqNr)
		}
		if err != nil && failed == nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(failed, annals.ErrTruncated) {
		t.Errorf("replayed, %v, want ErrTruncated", failed)
	}
}
