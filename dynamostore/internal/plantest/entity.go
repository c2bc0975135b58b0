package plantest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Entity is an entity in tables in memory. Its methods are steps of processes, whose requests come in every order.
type Entity struct {
	Ctx   context.Context
	Offer plan.Offer
	ID    annals.PersistenceID
	First annals.SeqNr // the number of its first event
	Acked annals.SeqNr // the last number that was acknowledged; First-1 before the first event

	// Forgotten means that a process may forget the entity, and append events with other data then. Events of one read must have the same
	// data.
	Forgotten bool
}

// Process is one of several processes that use the same tables. An error says what is wrong with the answers that it got.
type Process = func(x plan.Executor) error

// InTurn takes steps one after another, until one fails.
func InTurn(steps ...Process) Process {
	return func(x plan.Executor) error {
		for _, step := range steps {
			if err := step(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// EveryOrderOf runs processes in every order, on an entity that prepare writes before. begin returns a new entity for each run, and the
// tables that its layout needs. end may be nil. The test runs in parallel with others.
func EveryOrderOf[E any](t *testing.T, o Orders, begin func(s *Run) (E, []plan.Table), prepare func(e E, x plan.Executor) error, processes func(e E) []Process, end func(e E, x plan.Executor) error) {
	t.Helper()
	t.Parallel()
	EveryOrder(t, o, func(s *Run) Scenario {
		e, tables := begin(s)
		p := Scenario{Tables: New(tables)}
		if err := prepare(e, p.Tables); err != nil {
			t.Fatal(err)
		}
		p.Processes = processes(e)
		if end != nil {
			p.End = func(x plan.Executor) error { return end(e, x) }
		}
		return p
	})
}

// Write appends a commit for each size, by 'a'.
func (e *Entity) Write(x plan.Executor, sizes ...int) error {
	for _, size := range sizes {
		if err := e.Append(x, e.Acked, size, 'a'); err != nil {
			return err
		}
	}
	return nil
}

// Append stores a commit of size events. by is the data of the events, and part of the WriteID.
func (e *Entity) Append(x plan.Executor, after annals.SeqNr, size int, by byte) error {
	c := annals.Commit{ID: e.ID, After: after, WriteID: annals.WriteID{15: byte(after) + 1, 14: by}}
	for range size {
		c.Events = append(c.Events, Event(string(by)))
	}
	r, err := e.Offer.On(x).Journal.Append(e.Ctx, c)
	if err == nil {
		e.Acked = max(e.Acked, r.SeqNr)
	}
	return err
}

// DeleteTo deletes events.
func (e *Entity) DeleteTo(x plan.Executor, to annals.SeqNr) error {
	return e.Offer.On(x).Journal.DeleteTo(e.Ctx, e.ID, to)
}

// Prune deletes the snapshots up to a number.
func (e *Entity) Prune(x plan.Executor, to annals.SeqNr) error {
	return e.Offer.On(x).Snapshots.Delete(e.Ctx, e.ID, annals.SnapshotCriteria{MaxSeqNr: to})
}

// Recover recovers the entity. The result must be complete: a snapshot or none, and every event after it. After ErrTruncated it tries again.
func (e *Entity) Recover(x plan.Executor) error {
	for {
		acked := e.Acked
		covered, life, fault := e.First-1, "", error(nil)
		last, err := e.Offer.On(x).Recover(e.Ctx, e.ID, func(s annals.Snapshot) error {
			covered, life, fault = s.SeqNr, "", nil // it replaces what was handed over before
			return nil
		}, func(ev annals.Event) error {
			if ev.SeqNr != covered+1 || e.anotherLife(life, ev) {
				fault = fmt.Errorf("recovery has event %d of life %q after %d of life %q", ev.SeqNr, ev.Data, covered, life)
			}
			covered, life = ev.SeqNr, string(ev.Data)
			return nil
		})
		switch {
		case errors.Is(err, annals.ErrTruncated):
			continue
		case err != nil:
			return fmt.Errorf("recovery: %w", err)
		case fault != nil:
			return fault
		case last != covered || last < acked:
			return fmt.Errorf("recovery has come to %d, the last number is %d, want at least %d", covered, last, acked)
		}
		return nil
	}
}

// Replay reads the events from … to. They must be consecutive, and have all numbers up to to that were acknowledged before, unless the
// entity may be forgotten. If whole is set, they must begin with from and have all these numbers in any case.
func (e *Entity) Replay(x plan.Executor, from, to annals.SeqNr, whole bool) error {
	acked, next, life := e.Acked, annals.SeqNr(0), ""
	if whole {
		next = from
	}
	for ev, err := range e.Offer.On(x).Journal.Replay(e.Ctx, e.ID, from, to) {
		if errors.Is(err, annals.ErrTruncated) && !whole {
			return nil
		}
		if err != nil {
			return fmt.Errorf("replay from %d: %w", from, err)
		}
		if next != 0 && ev.SeqNr != next || e.anotherLife(life, ev) {
			return fmt.Errorf("replay from %d: event %d of life %q, want %d of life %q", from, ev.SeqNr, ev.Data, next, life)
		}
		next, life = ev.SeqNr+1, string(ev.Data)
	}
	if (whole || next != 0 && !e.Forgotten) && next <= min(to, acked) {
		return fmt.Errorf("replay from %d ends before %d, and %d was acknowledged", from, next, acked)
	}
	return nil
}

// anotherLife reports whether an event, unlike that before it, is one after the entity has been forgotten.
func (e *Entity) anotherLife(life string, ev annals.Event) bool {
	return e.Forgotten && life != "" && life != string(ev.Data)
}
