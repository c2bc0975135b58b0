package esa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// history is an entity that a library, or Annals, has written in some odd way.
type history struct {
	context.Context
	x      *plantest.Executor
	layout Layout
	plan.Contracts
}

func newHistory(t *testing.T, l Layout) *history {
	t.Helper()
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	return &history{t.Context(), x, l, offer.On(x)}
}

// library writes events of a library with these numbers, one after another; the first one with its state.
func (h *history) library(t *testing.T, version annals.SeqNr, numbers ...annals.SeqNr) {
	t.Helper()
	p := newLibrary(h.layout)
	p.unguarded = true
	for i, n := range numbers {
		var state *annals.Snapshot
		if v := version + annals.SeqNr(i); v == 0 {
			state = snapshotOf(entityID, n)
		}
		out, err := p.write(h, h.x, entityID, version+annals.SeqNr(i), n, state)
		if err != nil || out.Refused {
			t.Fatalf("event %d at version %d: %v, %v", n, version+annals.SeqNr(i), out.Refused, err)
		}
	}
}

func (h *history) lose(t *testing.T, numbers ...annals.SeqNr) {
	t.Helper()
	lose(&plantest.Bench{TB: t, Executor: h.x, ID: entityID}, h.layout, numbers...)
}

func (h *history) append(after annals.SeqNr) error {
	_, err := h.Journal.Append(h, annals.Commit{ID: entityID, After: after, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("x")}})
	return err
}

func (h *history) replay(from, to annals.SeqNr) (numbers []annals.SeqNr, failed error) {
	for e, err := range h.Journal.Replay(h, entityID, from, to) {
		if failed = err; err == nil {
			numbers = append(numbers, e.SeqNr)
		}
	}
	return numbers, failed
}

// recover returns the number of the snapshot and those of the events after it.
func (h *history) recover() (numbers []annals.SeqNr, last annals.SeqNr, err error) {
	last, err = h.Recover(h, entityID, func(s annals.Snapshot) error {
		numbers = []annals.SeqNr{s.SeqNr}
		return nil
	}, func(e annals.Event) error {
		numbers = append(numbers, e.SeqNr)
		return nil
	})
	return numbers, last, err
}

// An event that is lost is noticed wherever it was, also as the last one and directly after the snapshot.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{"shared": shared, "write ids": repeatable} {
		for lost := annals.SeqNr(1); lost <= 5; lost++ {
			for snapshot := range annals.SeqNr(5) {
				h := newHistory(t, l)
				h.library(t, 0, 1, 2, 3, 4, 5)
				if snapshot > 0 {
					if err := h.Snapshots.Save(h, *snapshotOf(entityID, snapshot)); err != nil {
						t.Fatal(err)
					}
				}
				h.lose(t, lost)
				covered := snapshot
				if covered == 0 {
					covered = 1 // the library's own state
				}
				if numbers, _, err := h.recover(); errors.Is(err, annals.ErrCorrupt) != (lost > covered) {
					t.Errorf("%s: recovery without event %d and the snapshot %d: %d, %v", name, lost, snapshot, numbers, err)
				}
				numbers, err := h.replay(1, annals.MaxSeqNr)
				if !errors.Is(err, annals.ErrCorrupt) || len(numbers) >= 5 {
					t.Errorf("%s: replay without event %d: %d, %v", name, lost, numbers, err)
				}
				if last, err := h.Journal.LastSeqNr(h, entityID); lost == 5 && !errors.Is(err, annals.ErrCorrupt) || lost < 5 && (err != nil || last != 5) {
					t.Errorf("%s: the last number without event %d: %d, %v", name, lost, last, err)
				}
				if err := h.append(lost - 1); !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrCorrupt) {
					t.Errorf("%s: append at the place of the lost event %d: %v", name, lost, err)
				}
			}
		}
	}
	h := newHistory(t, Layout{Shards: 3, Format: Plain(), Journal: Journal{Gaps: true}})
	h.library(t, 0, 1, 2, 3, 4, 5)
	h.lose(t, 3)
	if numbers, err := h.replay(1, annals.MaxSeqNr); err != nil || !slices.Equal(numbers, []annals.SeqNr{1, 2, 4, 5}) {
		t.Errorf("with Gaps: %d, %v", numbers, err)
	}
}

// Numbers that a library has left unused are no error, and Annals goes on after the last number.
func TestUnusedNumbers(t *testing.T) {
	t.Parallel()
	for _, numbers := range [][]annals.SeqNr{{1, 2, 4}, {1, 5}, {1, 5, 6, 7, 8, 9, 10}, {7, 8}, {1, 3, 2}, {1, 2, 0, 3}, {1, 3, 5, 7}, {1, 3, 5}, {1, 5, 3, 7}} {
		for _, gaps := range []bool{false, true} {
			name := fmt.Sprint(numbers, gaps)
			l := shared
			l.Journal.Gaps = gaps
			h := newHistory(t, l)
			h.library(t, 0, numbers...)
			events := slices.DeleteFunc(slices.Sorted(slices.Values(numbers)), func(n annals.SeqNr) bool { return n == 0 })
			last := events[len(events)-1]
			if gaps { // all numbers up to the version may have been used
				last = max(last, annals.SeqNr(len(numbers)))
			}
			if have, err := h.replay(1, annals.MaxSeqNr); err != nil || !slices.Equal(have, events) {
				t.Errorf("%s: replay %d, %v", name, have, err)
			}
			if have, n, err := h.recover(); err != nil || !slices.Equal(have, events) || n != last {
				t.Errorf("%s: recovery %d, last %d, %v", name, have, n, err)
			}
			if have, err := h.Journal.LastSeqNr(h, entityID); err != nil || have != last {
				t.Errorf("%s: last number %d, %v", name, have, err)
			}
			if err := h.append(last - 1); !errors.Is(err, annals.ErrConflict) {
				t.Errorf("%s: append after %d: %v", name, last-1, err)
			}
			for range 2 {
				if err := h.append(last); err != nil {
					t.Fatalf("%s: append after %d: %v", name, last, err)
				}
				last++
			}
			h.library(t, annals.SeqNr(len(numbers)+2), last+1)
			if err := h.append(last + 1); err != nil {
				t.Errorf("%s: append after the library's event %d: %v", name, last+1, err)
			}
			if err := h.Journal.DeleteTo(h, entityID, annals.MaxSeqNr); err != nil {
				t.Fatal(err)
			}
			if have, err := h.Journal.LastSeqNr(h, entityID); err != nil || have != last+2 {
				t.Errorf("%s: last number after a delete %d, %v, want %d", name, have, err, last+2)
			}
			if err := h.append(last + 2); err != nil {
				t.Errorf("%s: append after a delete: %v", name, err)
			}
		}
	}
}

// An event that a library has replaced was counted twice: one event is missing.
func TestReplacedEvents(t *testing.T) {
	t.Parallel()
	h := newHistory(t, shared)
	h.library(t, 0, 1, 2, 2)
	if have, err := h.replay(1, annals.MaxSeqNr); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("replay: %d, %v", have, err)
	}
	l := shared
	l.Journal.Gaps = true
	h = newHistory(t, l)
	h.library(t, 0, 1, 2, 2)
	if have, last, err := h.recover(); err != nil || !slices.Equal(have, []annals.SeqNr{1, 2}) || last != 3 { // three were stored
		t.Errorf("recovery with Gaps: %d, last %d, %v", have, last, err)
	}
	if err := h.append(2); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("append with Gaps where number 3 may have been used: %v", err)
	}
	if err := h.append(3); err != nil {
		t.Errorf("append with Gaps: %v", err)
	}
	if have, err := h.replay(1, annals.MaxSeqNr); err != nil || !slices.Equal(have, []annals.SeqNr{1, 2, 4}) {
		t.Errorf("replay with Gaps: %d, %v", have, err)
	}
}

// A head that has counted too many events is found with few requests, also when it is the greatest number.
func TestDamagedVersion(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{"shared": shared, "lean": repeatable, "keys": {Shards: 3, Format: Plain(), Keys: resolved}} {
		for _, version := range []annals.SeqNr{13, 1 << 40, annals.MaxSeqNr - 1, annals.MaxSeqNr} {
			h := newHistory(t, l)
			h.library(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
			for _, it := range h.x.Items("snapshot") {
				it[attrVersion] = plan.N(version)
			}
			h.x.Log()
			numbers, err := h.replay(1, annals.MaxSeqNr)
			_, _, recovered := h.recover()
			if requests := strings.Count(h.x.Log(), "\n    = "); !errors.Is(err, annals.ErrCorrupt) || !errors.Is(recovered, annals.ErrCorrupt) || requests > 1000 {
				t.Errorf("%s, version %d: %d, %v, recovery %v, %d answers", name, version, numbers, err, recovered, requests)
			}
		}
	}
}

func TestGreatestNumber(t *testing.T) {
	t.Parallel()
	for _, gaps := range []bool{false, true} {
		l := repeatable
		l.Journal.Gaps = gaps
		h := newHistory(t, l)
		h.library(t, 0, 1)
		h.lose(t, 1)
		for _, head := range h.x.Items("snapshot") { // the others were deleted
			head[attrVersion], head[attrDeleted] = plan.N(annals.MaxSeqNr-1), plan.N(annals.MaxSeqNr-1)
		}
		if err := h.append(annals.MaxSeqNr - 1); err != nil {
			t.Fatal(err)
		}
		if numbers, err := h.replay(1, annals.MaxSeqNr); err != nil || !slices.Equal(numbers, []annals.SeqNr{annals.MaxSeqNr}) {
			t.Errorf("Gaps %v: replay %d, %v", gaps, numbers, err)
		}
		if numbers, last, err := h.recover(); err != nil || !slices.Equal(numbers, []annals.SeqNr{1, annals.MaxSeqNr}) || last != annals.MaxSeqNr {
			t.Errorf("Gaps %v: recovery %d, last %d, %v", gaps, numbers, last, err)
		}
	}
}
