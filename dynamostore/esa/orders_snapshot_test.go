package esa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// saving is an entity whose snapshots are written by processes. Its head has version 3.
type saving struct {
	ctx    context.Context
	offer  plan.Offer
	keep   int
	newest annals.SeqNr // the highest number that was saved before a read began
}

type saver = func(x plan.Executor) error

// inEveryOrder runs processes in every order on an entity of l with three events and the state 3, whose saved copies are before.
func inEveryOrder(t *testing.T, l Layout, o plantest.Orders, before []annals.SeqNr, processes func(e *saving) []saver, end func(e *saving, x plan.Executor) error) {
	t.Helper()
	t.Parallel()
	plantest.EveryOrder(t, o, func(*plantest.Run) plantest.Scenario {
		l := l
		l.Shards = 8
		offer, err := l.Plan()
		if err != nil {
			t.Fatal(err)
		}
		e := &saving{ctx: t.Context(), offer: offer, keep: 100}
		x := plantest.New(offer.Tables)
		for n := range annals.SeqNr(3) {
			text := "first"
			if n > 0 {
				text = ""
			}
			err = errors.Join(err, appendTo(e.ctx, offer.On(x).Journal, e.keep, n+1, text))
		}
		for _, n := range before {
			err = errors.Join(err, e.save(x, n))
		}
		if e.keep = l.Snapshot.Keep; err != nil {
			t.Fatal(err)
		}
		return plantest.Scenario{Tables: x, Processes: processes(e), End: func(x plan.Executor) error {
			return end(e, x)
		}}
	})
}

// on returns the snapshots of the entity, whose requests x runs.
func (e *saving) on(x plan.Executor) *snapshots {
	s := e.offer.On(x).Snapshots.(*snapshots)
	s.keep = e.keep
	return s
}

func (e *saving) save(x plan.Executor, n annals.SeqNr) error {
	err := e.on(x).Save(e.ctx, taken(n, fmt.Sprint("state ", n)))
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

// commits appends events with the states n ….
func (e *saving) commits(numbers ...annals.SeqNr) saver {
	return func(x plan.Executor) error {
		for _, n := range numbers {
			if err := appendTo(e.ctx, e.offer.On(x).Journal, e.keep, n, fmt.Sprint("state ", n)); err != nil {
				return err
			}
			e.newest = max(e.newest, n)
		}
		return nil
	}
}

// libraryWrites stores event 4 and the state after it as the library for Go does.
func (e *saving) libraryWrites(x plan.Executor) error {
	s := e.on(x)
	row, err := s.key(account, 4)
	if err != nil {
		return err
	}
	row[attrAID], row[attrSeq], row[attrOccurred], row[attrPayload] = plan.S(s.aid(account)), plan.N(4), plan.N(1), plan.B([]byte(`{"type":"changed"}`))
	key, err := s.key(account, 0)
	if err != nil {
		return err
	}
	_, err = x.Write(e.ctx, plan.Write{Ops: []plan.Op{
		{Table: s.shape.Name, Key: key, Update: "SET #payload = :payload, #seq = :zero, #version = :after", Condition: "#version = :before",
			Names:  map[string]string{"#payload": attrPayload, "#seq": attrSeq, "#version": attrVersion},
			Values: plan.Item{":payload": plan.B([]byte(`{"seq_nr":4,"text":"state 4"}`)), ":zero": plan.N(0), ":before": plan.N(3), ":after": plan.N(4)}},
		{Table: "journal", Put: row, Condition: "attribute_not_exists(#pkey)", Names: map[string]string{"#pkey": attrPartition}},
	}})
	e.newest = max(e.newest, 4)
	return err
}

// reads reads the newest snapshot some times. It must not be older than one that was saved before, and its data that of its number.
func (e *saving) reads(times int) saver {
	return func(x plan.Executor) error {
		for range times {
			least := e.newest
			s, ok, err := e.on(x).Latest(e.ctx, account, annals.SnapshotCriteria{})
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
	for it, err := range e.on(x).all(e.ctx, account, annals.SnapshotCriteria{}, e.offer.Tables[1].Indexes[0].Name) {
		if err != nil {
			return err
		}
		if ttl, _ := plan.Number(it, attrTTL); ttl == 0 {
			have = append(have, e.on(x).numberIn(it))
		}
	}
	if !slices.Equal(have, []annals.SeqNr{7, 6}) {
		return fmt.Errorf("copies %d, want 7 and 6", have)
	}
	return e.reads(1)(x)
}

func endOfSaves(e *saving, x plan.Executor) error { return e.reads(1)(x) }

var ordersLayouts = map[string]Layout{"head": {}, "rust 3": {Peer: Rust3}, "write ids": {WriteIDs: true}, "copies": {Snapshot: Snapshot{Keep: 2}}}

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

// A library replaces the state of the head without a look at it.
func TestOrdersOfSavesBesideALibrary(t *testing.T) {
	inEveryOrder(t, Layout{}, plantest.Orders{Late: true}, []annals.SeqNr{3}, func(e *saving) []saver {
		return []saver{e.saves(3), e.libraryWrites, e.reads(2)}
	}, endOfSaves)
}

// A save, a delete of what was before it, and readers: there is always a snapshot.
func TestOrdersOfDeletes(t *testing.T) {
	t.Parallel()
	for name, l := range ordersLayouts {
		t.Run(name, func(t *testing.T) {
			inEveryOrder(t, l, plantest.Orders{}, []annals.SeqNr{3}, func(e *saving) []saver {
				return []saver{
					func(x plan.Executor) error {
						return errors.Join(e.save(x, 5), e.on(x).Delete(e.ctx, account, annals.SnapshotCriteria{MaxSeqNr: 4}))
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
	for name, l := range map[string]Layout{"delete": {Snapshot: Snapshot{Keep: 2}}, "mark": {Peer: JS3, Snapshot: Snapshot{Keep: 2, Expire: time.Second}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("two runs", func(t *testing.T) {
				inEveryOrder(t, l, plantest.Orders{Late: true}, []annals.SeqNr{5, 6, 7}, func(e *saving) []saver {
					retain := func(x plan.Executor) error { return e.on(x).retain(e.ctx, account, 0) }
					return []saver{retain, retain}
				}, keeps)
			})
			t.Run("beside a save", func(t *testing.T) {
				inEveryOrder(t, l, plantest.Orders{Page: 2}, []annals.SeqNr{4, 5, 6}, func(e *saving) []saver {
					return []saver{func(x plan.Executor) error { return e.on(x).retain(e.ctx, account, 0) }, e.saves(7)}
				}, keeps)
			})
		})
	}
}
