package esa

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory, whose requests come in every order.
type entity struct {
	ctx    context.Context
	layout Layout
	offer  plan.Offer
	acked  annals.SeqNr // the last number that was acknowledged
	unused annals.SeqNr // a number that a library has left unused
}

// after returns the number of the event after event n.
func (e *entity) after(n annals.SeqNr) annals.SeqNr {
	if n+1 == e.unused {
		n++
	}
	return n + 1
}

const entityID = annals.PersistenceID("Thread|1")

type process = func(e *entity, x plan.Executor) error

// scattered reads items that are not of one moment: the service reads each key of a batch at a time of its own.
type scattered struct{ plan.Executor }

// GetAll is plan.Executor.
func (s scattered) GetAll(ctx context.Context, table string, keys []plan.Item) (found []plan.Item, err error) {
	for _, key := range keys {
		it, ok, err := s.Get(ctx, plan.Get{Table: table, Key: key})
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, it)
		}
	}
	return found, nil
}

// everyOrder runs processes in every order, on an entity that prepare writes before. end, which may be nil, comes last.
func everyOrder(t *testing.T, l Layout, o plantest.Orders, prepare process, end process, processes ...process) {
	t.Helper()
	t.Parallel()
	plantest.EveryOrder(t, o, func(*plantest.Run) plantest.Scenario {
		offer, err := l.Plan()
		if err != nil {
			t.Fatal(err)
		}
		e := &entity{ctx: t.Context(), layout: l, offer: offer}
		p := plantest.Scenario{Tables: plantest.New(offer.Tables)}
		if err := prepare(e, p.Tables); err != nil {
			t.Fatal(err)
		}
		for _, do := range processes {
			p.Processes = append(p.Processes, func(x plan.Executor) error { return do(e, scattered{x}) })
		}
		if end != nil {
			p.End = func(x plan.Executor) error { return end(e, x) }
		}
		return p
	})
}

// inTurn takes steps one after another, until one fails.
func inTurn(steps ...process) process {
	return func(e *entity, x plan.Executor) error {
		for _, step := range steps {
			if err := step(e, x); err != nil {
				return err
			}
		}
		return nil
	}
}

// appends stores a commit for each size after the last number that was acknowledged.
func appends(sizes ...int) process {
	return func(e *entity, x plan.Executor) error {
		for _, size := range sizes {
			if err := e.append(x, e.acked, size, e.acked == 0); err != nil {
				return err
			}
		}
		return nil
	}
}

// writesState appends a commit with its snapshot.
func writesState(size int) process {
	return func(e *entity, x plan.Executor) error { return e.append(x, e.acked, size, true) }
}

func (e *entity) append(x plan.Executor, after annals.SeqNr, size int, snapshot bool) error {
	c := annals.Commit{ID: entityID, After: after, WriteID: annals.WriteID{14: byte(size), 15: byte(after)}}
	for range size {
		c.Events = append(c.Events, plantest.Event(fmt.Sprint(size)))
	}
	if snapshot {
		c.Snapshot = snapshotOf(entityID, after+annals.SeqNr(size))
	}
	r, err := e.offer.On(x).Journal.Append(e.ctx, c)
	if err == nil {
		e.acked = max(e.acked, r.SeqNr)
	}
	return err
}

// contends appends after a number. A conflict is no error, but of several such processes one must win.
func contends(after annals.SeqNr, size int, won *int) process {
	return func(e *entity, x plan.Executor) error {
		err := e.append(x, after, size, after == 0)
		if errors.Is(err, annals.ErrConflict) {
			return nil
		}
		if *won++; *won > 1 {
			return errors.New("two have won")
		}
		return err
	}
}

// competes writes events as a program with the library does: it reads the version and writes the next number. Conflicts are no errors.
func competes(count int) process {
	return func(e *entity, x plan.Executor) error {
		p := newLibrary(e.layout)
		for range count {
			key, err := p.key(entityID, 0)
			if err != nil {
				return err
			}
			it, _, err := x.Get(e.ctx, plan.Get{Table: p.heads, Key: key})
			if err != nil {
				return err
			}
			version, _ := plan.Number(it, attrVersion)
			out, err := p.write(e.ctx, x, entityID, annals.SeqNr(version), annals.SeqNr(version)+1, nil)
			if err != nil {
				return err
			}
			if !out.Refused {
				e.acked = max(e.acked, annals.SeqNr(version)+1)
			}
		}
		return nil
	}
}

// persists recovers the entity and writes one event after it, until that is stored.
func persists(e *entity, x plan.Executor) error {
	for {
		last, err := e.recover(x)
		if err != nil {
			return err
		}
		if err := e.append(x, last, 1, last == 0); !errors.Is(err, annals.ErrConflict) {
			return err
		}
	}
}

func deletes(to annals.SeqNr) process {
	return func(e *entity, x plan.Executor) error { return e.offer.On(x).Journal.DeleteTo(e.ctx, entityID, to) }
}

// replays reads the events from … to. They must be consecutive. If whole is set, they must begin with from and have all numbers up to to that
// were acknowledged before.
func replays(from, to annals.SeqNr, whole bool) process {
	return func(e *entity, x plan.Executor) error {
		acked, next := e.acked, annals.SeqNr(0)
		if whole {
			next = from
		}
		for ev, err := range e.offer.On(x).Journal.Replay(e.ctx, entityID, from, to) {
			if errors.Is(err, annals.ErrTruncated) && !whole {
				return nil
			}
			if err != nil {
				return fmt.Errorf("replay from %d: %w", from, err)
			}
			if next != 0 && ev.SeqNr != next {
				return fmt.Errorf("replay from %d: event %d, want %d", from, ev.SeqNr, next)
			}
			next = e.after(ev.SeqNr)
		}
		if next != 0 && next <= min(to, acked) {
			return fmt.Errorf("replay from %d ends before %d, and %d was acknowledged", from, next, acked)
		}
		return nil
	}
}

// recovers reads the entity.
func recovery(e *entity, x plan.Executor) error {
	_, err := e.recover(x)
	return err
}

// recover reads the entity. The result must be complete: a snapshot or none, and every event after it. After ErrTruncated it tries again.
func (e *entity) recover(x plan.Executor) (annals.SeqNr, error) {
	for {
		acked, covered, fault := e.acked, annals.SeqNr(0), error(nil)
		last, err := e.offer.On(x).Recover(e.ctx, entityID, func(s annals.Snapshot) error {
			if want := fmt.Sprint("state ", s.SeqNr); string(s.Data) != want {
				fault = fmt.Errorf("the snapshot %d has %q", s.SeqNr, s.Data)
			}
			covered = s.SeqNr // it replaces what was handed over before
			return nil
		}, func(ev annals.Event) error {
			if ev.SeqNr != e.after(covered) {
				fault = fmt.Errorf("recovery has event %d after %d", ev.SeqNr, covered)
			}
			covered = ev.SeqNr
			return nil
		})
		switch {
		case errors.Is(err, annals.ErrTruncated):
			continue
		case err != nil:
			return 0, fmt.Errorf("recovery: %w", err)
		case fault != nil:
			return 0, fault
		case last != covered || last < acked:
			return 0, fmt.Errorf("recovery has come to %d, the last number is %d, want at least %d", covered, last, acked)
		}
		return last, nil
	}
}

// lasts reads the last number some times. It must not go down, nor be below what was acknowledged before.
func lasts(times int) process {
	return func(e *entity, x plan.Executor) error {
		least := annals.SeqNr(0)
		for range times {
			least = max(least, e.acked)
			last, err := e.offer.On(x).Journal.LastSeqNr(e.ctx, entityID)
			if err != nil || last < least {
				return fmt.Errorf("the last number is %d, %v, want at least %d", last, err, least)
			}
			least = last
		}
		return nil
	}
}

// leaves writes events as a library does, and leaves one number before the last unused.
func leaves(unused, last annals.SeqNr) process {
	return func(e *entity, x plan.Executor) error {
		p, version := newLibrary(e.layout), annals.SeqNr(0)
		for n := annals.SeqNr(1); n <= last; n++ {
			if n == unused {
				continue
			}
			var state *annals.Snapshot
			if n == 1 {
				state = snapshotOf(entityID, n)
			}
			if _, err := p.write(e.ctx, x, entityID, version, n, state); err != nil {
				return err
			}
			version++
		}
		e.unused, e.acked = unused, last
		return nil
	}
}

// whole is the end of scenarios: all that was acknowledged is there.
var whole = inTurn(lasts(1), recovery, replays(1, annals.MaxSeqNr, true))

func TestOrdersOfAppends(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{"shared": shared, "write ids": repeatable} {
		for after := range annals.SeqNr(2) {
			t.Run(fmt.Sprintf("%s: one of three wins, after %d", name, after), func(t *testing.T) {
				won := 0
				begin := func(e *entity, x plan.Executor) error {
					if won = 0; after == 0 {
						return nil
					}
					return appends(int(after))(e, x)
				}
				everyOrder(t, l, plantest.Orders{Late: true}, begin, whole, contends(after, 1, &won), contends(after, 2, &won), contends(after, 3, &won))
			})
		}
	}
	t.Run("beside the library", func(t *testing.T) {
		everyOrder(t, shared, plantest.Orders{}, appends(1), whole, persists, competes(2))
	})
	t.Run("beside a delete", func(t *testing.T) {
		everyOrder(t, repeatable, plantest.Orders{Late: true}, appends(2), lasts(1), appends(1, 1), deletes(annals.MaxSeqNr))
	})
	for name, l := range map[string]Layout{"shared": shared, "write ids": repeatable} { // without and with tombstones
		stale := func(e *entity, x plan.Executor) error {
			if err := e.append(x, 1, 2, false); !errors.Is(err, annals.ErrConflict) {
				return fmt.Errorf("append after 1: %v", err)
			}
			return nil
		}
		t.Run(name+": of a writer that does not know of a delete", func(t *testing.T) {
			everyOrder(t, l, plantest.Orders{}, appends(1, 1), lasts(1), deletes(annals.MaxSeqNr), stale)
		})
	}
}

func TestOrdersOfReplay(t *testing.T) {
	t.Parallel()
	for from := annals.SeqNr(1); from <= 3; from++ {
		t.Run(fmt.Sprint("beside appends, from ", from), func(t *testing.T) {
			everyOrder(t, repeatable, plantest.Orders{}, appends(2), whole, appends(1, 2), replays(from, annals.MaxSeqNr, true))
		})
	}
	t.Run("beside appends, through the index", func(t *testing.T) {
		l := repeatable
		l.Journal.Gaps = true
		everyOrder(t, l, plantest.Orders{Page: 2}, appends(2), whole, appends(1, 2), replays(1, annals.MaxSeqNr, true))
	})
	for deleted := annals.SeqNr(1); deleted <= 3; deleted++ {
		for to, name := range map[annals.SeqNr]string{annals.MaxSeqNr: "", 2: ", up to 2"} {
			t.Run(fmt.Sprintf("beside a delete to %d%s", deleted, name), func(t *testing.T) {
				everyOrder(t, repeatable, plantest.Orders{}, appends(3), replays(deleted+1, annals.MaxSeqNr, true), inTurn(deletes(deleted), appends(1)), replays(1, to, false))
			})
		}
	}
	t.Run("beside the library", func(t *testing.T) {
		everyOrder(t, shared, plantest.Orders{}, appends(2), whole, competes(2), replays(1, annals.MaxSeqNr, true))
	})
}

func TestOrdersOfRecovery(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{"shared": shared, "write ids": repeatable} {
		t.Run(name+": beside the owner's snapshots and deletes", func(t *testing.T) {
			everyOrder(t, l, plantest.Orders{}, inTurn(writesState(1), appends(2)), recovery, inTurn(writesState(1), deletes(4), appends(1)), recovery)
		})
		t.Run(name+": beside a snapshot and another event", func(t *testing.T) {
			everyOrder(t, l, plantest.Orders{}, appends(1), whole, inTurn(appends(1), writesState(1), appends(1)), recovery)
		})
	}
	t.Run("beside a delete of an entity without snapshots", func(t *testing.T) {
		prunes := func(e *entity, x plan.Executor) error {
			return e.offer.On(x).Snapshots.Delete(e.ctx, entityID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}
		everyOrder(t, repeatable, plantest.Orders{}, inTurn(appends(2), prunes), nil, deletes(annals.MaxSeqNr), func(e *entity, x plan.Executor) error {
			last, err := e.offer.On(x).Recover(e.ctx, entityID, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			if !errors.Is(err, annals.ErrTruncated) && (err != nil || last != e.acked) {
				return fmt.Errorf("the last number is %d, %v, want %d", last, err, e.acked)
			}
			return nil
		})
	})
}

// With an unused number, reads beside deletes hide nothing: with Gaps, and where the count says that no event is missing.
func TestOrdersOfGaps(t *testing.T) {
	t.Parallel()
	l := shared
	saves := func(e *entity, x plan.Executor) error {
		return e.offer.On(x).Snapshots.Save(e.ctx, *snapshotOf(entityID, 4))
	}
	for _, gaps := range []bool{false, true} {
		l.Journal.Gaps = gaps
		for _, deleted := range []annals.SeqNr{3, 4, 6} {
			t.Run(fmt.Sprintf("Gaps %v: a replay beside a delete to %d", gaps, deleted), func(t *testing.T) {
				everyOrder(t, l, plantest.Orders{Page: 2}, leaves(5, 7), nil, deletes(deleted), replays(1, annals.MaxSeqNr, false))
			})
		}
	}
	t.Run("a recovery beside a snapshot and a delete", func(t *testing.T) {
		everyOrder(t, l, plantest.Orders{}, leaves(3, 4), nil, inTurn(saves, deletes(4)), recovery)
	})
	t.Run("the last number beside deletes", func(t *testing.T) {
		everyOrder(t, l, plantest.Orders{}, leaves(3, 4), nil, deletes(annals.MaxSeqNr), lasts(2))
	})
}

// Where a library has left a number unused, the last number is another one than the version.
func TestOrdersOfGuards(t *testing.T) {
	var g *plantest.Guards
	prepare := func(e *entity, x plan.Executor) error {
		g = plantest.NewGuards(e.ctx, e.layout, x.(*plantest.Executor))
		return leaves(3, 4)(e, x)
	}
	guards := func(e *entity, x plan.Executor) error {
		read, err := g.Read(x, e.offer, driver.Seen{ID: entityID})
		return errors.Join(err, g.Send(x, e.offer, read))
	}
	library := func(e *entity, x plan.Executor) error {
		_, err := newLibrary(e.layout).write(e.ctx, x, entityID, 3, 5, nil)
		return err
	}
	everyOrder(t, shared, plantest.Orders{}, prepare, nil, inTurn(guards, guards), library)
}

func TestOrdersOfDeletedEvents(t *testing.T) {
	t.Parallel()
	t.Run("two at a time", func(t *testing.T) {
		everyOrder(t, repeatable, plantest.Orders{Late: true}, appends(4), inTurn(lasts(1), replays(4, annals.MaxSeqNr, true)), deletes(3), deletes(2))
	})
	t.Run("the last number beside deletes of everything", func(t *testing.T) {
		everyOrder(t, shared, plantest.Orders{}, appends(2), lasts(1), inTurn(deletes(annals.MaxSeqNr), appends(1), deletes(annals.MaxSeqNr)), lasts(2))
	})
}
