package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/annals-go/annals"
)

// naiveCases are the cases for Config.Naive: faultCases on short histories, repeated until one of them has found what is wrong. A state that
// was overwritten before a client read it shows in the history only.
func naiveCases() []testCase {
	const most, steps = 10, 15
	cases := faultCasesOf(func(*harness) int { return steps })
	for i, tc := range cases {
		cases[i].run = func(h *harness) {
			var all string
			for try := range most {
				name := fmt.Sprintf("%s-%d", h.name, try)
				found := record(h, func(tb testing.TB) { tc.run(sharingHarness(tb, probe{caps: h.caps, cfg: h.cfg}, h.store, name)) })
				if all = strings.Join(found, "\n"); strings.Contains(all, falseConflicts) || strings.Contains(all, impossible) {
					return
				}
			}
			h.Errorf("a store that cannot recognise its own writes: want %q or %q among the failures, got at last:\n%.2000s", falseConflicts, impossible, all)
		}
	}
	return cases
}

// faultCases are about Config.Faults.
func faultCases() []testCase {
	return faultCasesOf(func(h *harness) int { return h.volume(200, 60) })
}

// faultCasesOf are the cases with histories in which each client takes so many steps.
func faultCasesOf(steps func(h *harness) int) []testCase {
	return []testCase{
		{id: "FAULT-1", about: "histories of a journal are linearizable", needs: needs(events, faults), run: func(h *harness) { h.journalsUnderFaults(steps(h), false) }},
		{id: "FAULT-2", about: "histories of a journal with deletes are linearizable", needs: needs(events, fenceAfterDelete, faults), run: func(h *harness) { h.journalsUnderFaults(steps(h), true) }},
		{id: "FAULT-3", about: "histories of durable states are linearizable", needs: needs(states, faults), run: func(h *harness) { h.statesUnderFaults(steps(h)) }},
	}
}

func (h *harness) journalsUnderFaults(steps int, deletes bool) {
	h.underFaults(3, journalModel, "replay", func(hi *history, ids []annals.PersistenceID) { h.writeJournals(hi, h.store, ids, steps, deletes) },
		func(in action) (answer, error) { return h.readAll(h.journal(), in.id) })
}

func (h *harness) statesUnderFaults(steps int) {
	h.underFaults(2, stateModel, "get", func(hi *history, ids []annals.PersistenceID) { h.writeStates(hi, ids, steps) }, h.stateCall)
}

// underFaults writes to so many entities while there are faults, reads all of them afterwards, and checks the history.
func (h *harness) underFaults(entities int, model porcupine.Model, op string, write func(hi *history, ids []annals.PersistenceID), read func(in action) (answer, error)) {
	h.Helper()
	hi := newHistory()
	var ids []annals.PersistenceID
	for range entities {
		ids = append(ids, h.id())
	}
	end := h.cfg.Faults(h, h.store)
	write(hi, ids)
	faults := end()
	for _, id := range ids {
		in := action{op: op, id: id}
		if _, err := hi.do(0, in, func() (answer, error) { return read(in) }); err != nil {
			h.Fatalf("after the faults: %v", err)
		}
	}
	h.wantSound(hi, faults)
	hi.check(h, model)
}

// wantSound demands that each fault happened, that clients still wrote and met conflicts, and that no answer was wrong.
func (h *harness) wantSound(hi *history, faults map[string]int) {
	h.Helper()
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		if faults[name] == 0 {
			h.Errorf("the fault %q never happened, want it to", name)
		}
	}
	if len(faults) == 0 {
		h.Error("no faults happened, want some")
	}
	t := newTally(hi.calls)
	h.Logf("%d writes, %d conflicts, %d unknown; %d false conflicts, %d lost, %d doubled; faults %v",
		t.writes, t.conflicts, t.unknown, len(t.falseConflicts), len(t.lost), len(t.doubled), faults)
	if t.writes == 0 || t.conflicts == 0 {
		h.Errorf("got %d writes and %d conflicts, want some of both", t.writes, t.conflicts)
	}
	for name, found := range map[string][]string{falseConflicts: t.falseConflicts, "acknowledged writes lost": t.lost, "writes stored twice": t.doubled} {
		if len(found) > 0 {
			h.Errorf("%s: got %d, want none; the first is %s", name, len(found), found[0])
		}
	}
}

const falseConflicts = "conflicts of writes that were stored"

// tally counts the answers that writers got, and compares them with what readers saw. The model of the history finds more faults than
// this, but does not say what is wrong.
type tally struct {
	writes, conflicts, unknown    int
	falseConflicts, lost, doubled []string
}

// place is the number of an entity at which a value was read.
type place struct {
	id annals.PersistenceID
	n  annals.SeqNr
}

func newTally(calls []call) (t tally) {
	at, stored := map[string]place{}, map[place]string{} // values are unique
	deleted, noted := map[annals.PersistenceID]annals.SeqNr{}, map[string]bool{}
	note := func(faults *[]string, value, text string) {
		if !noted[value] {
			noted[value] = true
			*faults = append(*faults, text)
		}
	}
	for _, c := range calls {
		switch c.in.op {
		case "delete":
			deleted[c.in.id] = max(deleted[c.in.id], c.in.n)
		case "replay", "recover", "get":
			for i, value := range each(c.out.values) {
				p := place{c.in.id, c.out.n + annals.SeqNr(i)}
				if was, ok := at[value]; ok && was != p {
					note(&t.doubled, value, fmt.Sprintf("%q at %v and at %v", value, was, p))
				}
				if was, ok := stored[p]; ok && was != value {
					note(&t.lost, was, fmt.Sprintf("%q at %v, where %q was later", was, p, value))
				}
				at[value], stored[p] = p, value
			}
		}
	}
	for _, c := range calls {
		if c.in.op != "append" && c.in.op != "put" && c.in.op != "remove" {
			continue
		}
		values := each(c.in.values)
		switch {
		case c.out.conflict:
			t.conflicts++
			for _, value := range values {
				if p, ok := at[value]; ok {
					t.falseConflicts = append(t.falseConflicts, fmt.Sprintf("%v; %q is at %v", c, value, p))
					break
				}
			}
		case c.out.unknown:
			t.unknown++
		default:
			t.writes++
			for i, value := range values {
				p := place{c.in.id, c.out.n - annals.SeqNr(len(values)-1-i)}
				got, seen := stored[p]
				if mayBeDeleted := c.in.op != "append" || p.n <= deleted[p.id]; got != value && (seen || !mayBeDeleted) {
					note(&t.lost, value, fmt.Sprintf("%v; %v has %q", c, p, got))
				}
			}
		}
	}
	return t
}
