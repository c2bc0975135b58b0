package headed

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

// saving is an entity whose snapshots are written by processes. Its head has version 3.
type saving struct {
	ctx    context.Context
	s      *snapshots
	newest annals.SeqNr // the highest number that was saved before a read began
}

type saver = func(x plan.Executor) error

// inEveryOrder runs processes in every order on an entity of l with the state 3, whose saved copies are before.
func inEveryOrder(t *testing.T, l Layout, o plantest.Orders, before []annals.SeqNr, processes func(e *saving) []saver, end func(e *saving, x plan.Executor) error) {
	t.Helper()
	t.Parallel()
	plantest.EveryOrder(t, o, func(*plantest.Run) plantest.Scenario {
		l := l
		l.Shards = 8
		s, tables, err := newSnapshots(l)
		if err != nil {
			t.Fatal(err)
		}
		e := &saving{ctx: t.Context(), s: s}
		x := plantest.New(tables)
		keep := s.keep
		s.keep = 100
		for n := range annals.SeqNr(3) {
			text := "first"
			if l.Lean || n > 0 {
				text = ""
			}
			err = errors.Join(err, commitState(e.ctx, s.on(x), n+1, text))
		}
		for _, n := range before {
			err = errors.Join(err, e.save(x, n))
		}
		s.keep = keep
		if err != nil {
			t.Fatal(err)
		}
		return plantest.Scenario{Tables: x, Processes: processes(e), End: func(x plan.Executor) error {
			return end(e, x)
		}}
	})
}

func (e *saving) save(x plan.Executor, n annals.SeqNr) error {
	err := e.s.on(x).Save(e.ctx, taken(n, fmt.Sprint("state ", n)))
	e.newest = max(e.newest, n)
	return err
}

func (e *saving) saves(numbers ...annals.SeqNr) saver {
	return func(x plan.Executor) error {
		for _, n := range numbers {
			if err := e.save(x, n); err != nil {
				return err
			}
		}
		return nil
	}
}

// commits appends events with the states n …, as another process, Annals or a library, does. It takes the version that the head has.
func (e *saving) commits(numbers ...annals.SeqNr) saver {
	return func(x plan.Executor) error {
		for _, n := range numbers {
			if err := commitState(e.ctx, e.s.on(x), n, fmt.Sprint("state ", n)); err != nil {
				return err
			}
			e.newest = max(e.newest, n)
		}
		return nil
	}
}

// reads reads the newest snapshot some times. It must not be older than one that was saved before, and its data that of its number.
func (e *saving) reads(times int) saver {
	return func(x plan.Executor) error {
		for range times {
			least := e.newest
			s, ok, err := e.s.on(x).Latest(e.ctx, account, annals.SnapshotCriteria{})
			if err != nil || !ok || s.SeqNr < least || s.SeqNr > 3 && !strings.Contains(string(s.Data), fmt.Sprint("state ", s.SeqNr)) {
				return fmt.Errorf("newest snapshot %d, %v, %v, want at least %d", s.SeqNr, ok, err, least)
			}
			e.newest = max(e.newest, s.SeqNr)
		}
		return nil
	}
}

// keeps demands that the copies that are not marked are 7 and 6.
func keeps(e *saving, x plan.Executor) error {
	var have []annals.SeqNr
	for it, err := range e.s.on(x).copies(e.ctx, account, annals.SnapshotCriteria{}, e.s.index) {
		if err != nil {
			return err
		}
		if ttl, _ := plan.Number(it, attrTTL); ttl == 0 {
			have = append(have, e.s.numberIn(it))
		}
	}
	if !slices.Equal(have, []annals.SeqNr{7, 6}) {
		return fmt.Errorf("copies %d, want 7 and 6", have)
	}
	return e.reads(1)(x)
}

func endOfSaves(e *saving, x plan.Executor) error { return e.reads(1)(x) }

var ordersLayouts = map[string]Layout{"head": {}, "rust 3": {Peer: Rust3}, "lean": {Lean: true}, "copies": {Snapshot: Snapshot{Keep: 2}}}

// The newest snapshot never goes back, whatever saves and commits do at the same time, also when a request is executed late and for a second time.
func TestOrdersOfSaves(t *testing.T) {
	t.Parallel()
	for name, l := range ordersLayouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := plantest.Orders{Late: l.Snapshot.Keep == 0} // a write with a copy is a transaction, which is not executed twice
			t.Run("two savers", func(t *testing.T) {
				inEveryOrder(t, l, o, []annals.SeqNr{3}, func(e *saving) []saver {
					return []saver{e.saves(5, 7), e.saves(6)}
				}, endOfSaves)
			})
			t.Run("beside commits", func(t *testing.T) {
				inEveryOrder(t, l, o, []annals.SeqNr{3}, func(e *saving) []saver {
					return []saver{e.saves(4), e.commits(4, 5), e.reads(1)}
				}, endOfSaves)
			})
		})
	}
}

// A save, a delete of what was before it, and readers: there is always a snapshot.
func TestOrdersOfDeletes(t *testing.T) {
	t.Parallel()
	for name, l := range ordersLayouts {
		t.Run(name, func(t *testing.T) {
			inEveryOrder(t, l, plantest.Orders{}, []annals.SeqNr{3}, func(e *saving) []saver {
				return []saver{
					func(x plan.Executor) error {
						return errors.Join(e.save(x, 5), e.s.on(x).Delete(e.ctx, account, annals.SnapshotCriteria{MaxSeqNr: 4}))
					},
					e.reads(2),
				}
			}, endOfSaves)
		})
	}
}

// Two runs of the retention, with different numbers of copies and beside a save, leave the newest.
func TestOrdersOfRetention(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{"delete": {Snapshot: Snapshot{Keep: 2}}, "mark": {Peer: JS3, Snapshot: Snapshot{Keep: 2, Expire: 1}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("two runs", func(t *testing.T) {
				inEveryOrder(t, l, plantest.Orders{Late: true}, []annals.SeqNr{5, 6, 7}, func(e *saving) []saver {
					retain := func(x plan.Executor) error { return e.s.on(x).retain(e.ctx, account, 0) }
					return []saver{retain, retain}
				}, keeps)
			})
			t.Run("beside a save", func(t *testing.T) {
				inEveryOrder(t, l, plantest.Orders{Page: 2}, []annals.SeqNr{4, 5, 6}, func(e *saving) []saver {
					return []saver{func(x plan.Executor) error { return e.s.on(x).retain(e.ctx, account, 0) }, e.saves(7)}
				}, keeps)
			})
		})
	}
}
