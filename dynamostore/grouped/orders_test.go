package grouped

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory, whose requests come in every order. Its first event has the number 97, so that it soon needs a second
// group.
type entity struct {
	ctx   context.Context
	offer plan.Offer
	acked annals.SeqNr // the last number that was acknowledged
}

const (
	entityID = annals.PersistenceID("order-1")
	before   = annals.SeqNr(96)
)

type process = func(x plan.Executor) error

// everyOrder runs processes in every order, on an entity that prepare writes before.
func everyOrder(t *testing.T, o plantest.Orders, prepare func(e *entity, x plan.Executor) error, processes func(e *entity) []process, end func(e *entity, x plan.Executor) error) {
	t.Helper()
	t.Parallel()
	plantest.EveryOrder(t, o, func(*plantest.Run) plantest.Scenario {
		offer, err := Layout{Journal: Journal{SequenceShards: 2}}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		e := &entity{ctx: t.Context(), offer: offer, acked: before}
		p := plantest.Scenario{Tables: plantest.New(offer.Tables)}
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

// write appends a commit for each size.
func (e *entity) write(x plan.Executor, sizes ...int) error {
	for _, size := range sizes {
		if err := e.append(x, e.acked, size, 'a'); err != nil {
			return err
		}
	}
	return nil
}

func (e *entity) append(x plan.Executor, after annals.SeqNr, size int, by byte) error {
	c := annals.Commit{ID: entityID, After: after, WriteID: annals.WriteID{15: byte(after), 14: by}}
	for range size {
		c.Events = append(c.Events, plantest.Event(string(by)))
	}
	r, err := e.offer.On(x).Journal.Append(e.ctx, c)
	if err == nil {
		e.acked = max(e.acked, r.SeqNr)
	}
	return err
}

func (e *entity) deleteTo(x plan.Executor, to annals.SeqNr) error {
	return e.offer.On(x).Journal.DeleteTo(e.ctx, entityID, to)
}

func (e *entity) save(x plan.Executor, n annals.SeqNr) error {
	return e.offer.On(x).Snapshots.Save(e.ctx, annals.Snapshot{ID: entityID, SeqNr: n, Time: time.Unix(int64(n), 0), Payload: annals.Payload{SerializerID: 4, Data: []byte{byte(n)}}})
}

func (e *entity) prune(x plan.Executor, to annals.SeqNr) error {
	return e.offer.On(x).Snapshots.Delete(e.ctx, entityID, annals.SnapshotCriteria{MaxSeqNr: to})
}

// replays reads the events from … to. They must be consecutive. If whole is set, they must begin with from and have all numbers up to to that
// were acknowledged before.
func (e *entity) replays(x plan.Executor, from, to annals.SeqNr, whole bool) error {
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
		next = ev.SeqNr + 1
	}
	if next != 0 && next <= min(to, acked) {
		return fmt.Errorf("replay from %d ends before %d, and %d was acknowledged", from, next, acked)
	}
	return nil
}

// recovers recovers the entity. The result must be complete: a snapshot or none, and every event after it. After ErrTruncated it tries again.
func (e *entity) recovers(x plan.Executor) error {
	for {
		acked, covered, fault := e.acked, before, error(nil)
		last, err := e.offer.On(x).Recover(e.ctx, entityID, func(s annals.Snapshot) error {
			covered, fault = s.SeqNr, nil // it replaces what was handed over before
			return nil
		}, func(ev annals.Event) error {
			if ev.SeqNr != covered+1 {
				fault = fmt.Errorf("recovery has event %d after %d", ev.SeqNr, covered)
			}
			covered = ev.SeqNr
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

// lasts reads the last number some times. It must not go down, nor be below what was acknowledged before.
func (e *entity) lasts(x plan.Executor, times int) error {
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

// inTurn takes steps one after another, until one fails.
func inTurn(steps ...process) process {
	return func(x plan.Executor) error {
		for _, step := range steps {
			if err := step(x); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestOrdersOfReplay(t *testing.T) {
	t.Parallel()
	for from := annals.SeqNr(97); from <= 102; from++ {
		t.Run(fmt.Sprint("beside appends, from ", from), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.write(x, 1) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error { return e.write(x, 1, 2, 1) },
						func(x plan.Executor) error { return e.replays(x, from, annals.MaxSeqNr, true) },
					}
				}, nil)
		})
	}
	for deleted := annals.SeqNr(98); deleted <= 101; deleted++ {
		for to, name := range map[annals.SeqNr]string{annals.MaxSeqNr: "", 100: ", up to 100"} {
			t.Run(fmt.Sprintf("beside a delete to %d%s", deleted, name), func(t *testing.T) {
				everyOrder(t, plantest.Orders{Page: 2},
					func(e *entity, x plan.Executor) error { return e.write(x, 1, 1, 3) },
					func(e *entity) []process {
						return []process{
							inTurn(func(x plan.Executor) error { return e.deleteTo(x, deleted) }, func(x plan.Executor) error { return e.write(x, 1) }),
							func(x plan.Executor) error { return e.replays(x, 98, to, false) },
						}
					}, func(e *entity, x plan.Executor) error { return e.replays(x, deleted+1, annals.MaxSeqNr, true) })
			})
		}
	}
}

// A group of several pages is not of one moment.
func TestOrdersOfReplayOverPages(t *testing.T) {
	everyOrder(t, plantest.Orders{Page: 2},
		func(e *entity, x plan.Executor) error { return e.write(x, 1, 1, 1) },
		func(e *entity) []process {
			return []process{
				func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) },
				func(x plan.Executor) error { return e.replays(x, 97, annals.MaxSeqNr, false) },
			}
		}, nil)
}

func TestOrdersOfDeletes(t *testing.T) {
	t.Parallel()
	t.Run("the last number beside deletes of everything", func(t *testing.T) {
		everyOrder(t, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1, 2) },
			func(e *entity) []process {
				return []process{
					inTurn(func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) }, func(x plan.Executor) error { return e.write(x, 1) },
						func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) }),
					func(x plan.Executor) error { return e.lasts(x, 2) },
				}
			}, func(e *entity, x plan.Executor) error { return e.lasts(x, 1) })
	})
	t.Run("two at a time", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1, 1, 1) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.deleteTo(x, 99) },
					func(x plan.Executor) error { return e.deleteTo(x, 98) },
				}
			}, func(e *entity, x plan.Executor) error { return e.replays(x, 100, annals.MaxSeqNr, true) })
	})
}

func TestOrdersOfRecovery(t *testing.T) {
	t.Parallel()
	t.Run("beside the owner's snapshots and deletes", func(t *testing.T) {
		everyOrder(t, plantest.Orders{},
			func(e *entity, x plan.Executor) error {
				return errors.Join(e.write(x, 1, 2, 1), e.save(x, 98), e.deleteTo(x, 98))
			},
			func(e *entity) []process {
				return []process{
					inTurn(
						func(x plan.Executor) error { return e.save(x, 100) },
						func(x plan.Executor) error { return e.deleteTo(x, 100) },
						func(x plan.Executor) error { return e.prune(x, 99) },
						func(x plan.Executor) error { return e.write(x, 1) },
					),
					e.recovers,
				}
			}, func(e *entity, x plan.Executor) error { return e.recovers(x) })
	})
	t.Run("beside a delete of an entity without snapshots", func(t *testing.T) {
		everyOrder(t, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) },
					func(x plan.Executor) error {
						last, err := e.offer.On(x).Recover(e.ctx, entityID, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
						if !errors.Is(err, annals.ErrTruncated) && (err != nil || last != e.acked) {
							return fmt.Errorf("the last number is %d, %v, want %d", last, err, e.acked)
						}
						return nil
					},
				}
			}, nil)
	})
}

func TestOrdersOfAppends(t *testing.T) {
	t.Parallel()
	for after := annals.SeqNr(98); after <= 99; after++ {
		t.Run(fmt.Sprint("one of two wins, after ", after), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Late: true},
				func(e *entity, x plan.Executor) error { return e.write(x, 1, int(after-before)-1) },
				func(e *entity) []process {
					won := 0
					writer := func(size int, by byte) process {
						return func(x plan.Executor) error {
							err := e.append(x, after, size, by)
							if errors.Is(err, annals.ErrConflict) {
								return nil
							}
							if won++; won > 1 {
								return errors.New("both have won")
							}
							return err
						}
					}
					return []process{writer(1, 'a'), writer(2, 'b')}
				},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.lasts(x, 1), e.replays(x, 97, annals.MaxSeqNr, true))
				})
		})
	}
}
