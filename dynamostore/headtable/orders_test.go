package headtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory, whose requests come in every order.
type entity struct {
	ctx   context.Context
	offer plan.Offer
	acked annals.SeqNr // the last number that was acknowledged
}

const (
	entityID  = annals.PersistenceID("Thing|1")
	entityAID = "Thing-1"
)

type process = func(x plan.Executor) error

// everyOrder runs processes in every order, on an entity that prepare writes before.
func everyOrder(t *testing.T, l Layout, o plantest.Orders, prepare func(e *entity, x plan.Executor) error, processes func(e *entity) []process, end func(e *entity, x plan.Executor) error) {
	t.Helper()
	t.Parallel()
	plantest.EveryOrder(t, o, func(*plantest.Run) plantest.Scenario {
		offer, err := l.Plan()
		if err != nil {
			t.Fatal(err)
		}
		e := &entity{ctx: t.Context(), offer: offer}
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
	return e.commit(x, c)
}

func (e *entity) commit(x plan.Executor, c annals.Commit) error {
	r, err := e.offer.On(x).Journal.Append(e.ctx, c)
	if err == nil {
		e.acked = max(e.acked, r.SeqNr)
	}
	return err
}

func (e *entity) deleteTo(x plan.Executor, to annals.SeqNr) error {
	return e.offer.On(x).Journal.DeleteTo(e.ctx, entityID, to)
}

func snapshotOf(n annals.SeqNr, data byte) annals.Snapshot {
	return annals.Snapshot{ID: entityID, SeqNr: n, Time: time.Unix(int64(n), 0), Payload: annals.Payload{SerializerID: 31, Data: []byte{data}}}
}

func (e *entity) save(x plan.Executor, n annals.SeqNr) error {
	return e.offer.On(x).Snapshots.Save(e.ctx, snapshotOf(n, byte(n)))
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
		if errors.Is(err, annals.ErrTruncated) && !whole && next != 0 {
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
		acked, covered, fault := e.acked, annals.SeqNr(0), error(nil)
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

// Of writers with the same After one wins, and the others get the last number. A commit that is sent twice is stored once.
func TestOrdersOfAppends(t *testing.T) {
	t.Parallel()
	for after := range annals.SeqNr(2) {
		t.Run(fmt.Sprint("one of two wins, after ", after), func(t *testing.T) {
			won := map[*entity]int{}
			everyOrder(t, Layout{}, plantest.Orders{},
				func(e *entity, x plan.Executor) error { return e.write(x, slices.Repeat([]int{1}, int(after))...) },
				func(e *entity) []process {
					writer := func(size int, by byte) process {
						return func(x plan.Executor) error {
							err := e.append(x, after, size, by)
							if conflict, ok := errors.AsType[*annals.Error](err); ok && conflict.Kind == annals.ErrConflict && conflict.Last > after {
								return nil
							}
							won[e]++
							return err
						}
					}
					return []process{writer(1, 'a'), writer(2, 'b')}
				},
				func(e *entity, x plan.Executor) error {
					if won[e] != 1 {
						return fmt.Errorf("%d writers have won", won[e])
					}
					return e.replays(x, 1, annals.MaxSeqNr, true)
				})
		})
	}
	t.Run("the same commit twice", func(t *testing.T) {
		everyOrder(t, Layout{WriteIDs: true}, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.write(x, 1) },
			func(e *entity) []process {
				send := func(x plan.Executor) error { return e.append(x, 1, 2, 'a') }
				return []process{send, inTurn(send, func(x plan.Executor) error { return e.append(x, 3, 1, 'a') })}
			},
			func(e *entity, x plan.Executor) error { return e.replays(x, 1, annals.MaxSeqNr, true) })
	})
	t.Run("beside a delete of everything", func(t *testing.T) {
		everyOrder(t, Layout{WriteIDs: true}, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 2) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) },
					inTurn(func(x plan.Executor) error { return e.append(x, 3, 1, 'b') }, func(x plan.Executor) error { return e.append(x, 3, 1, 'b') }),
					func(x plan.Executor) error {
						if err := e.append(x, 1, 1, 'c'); !errors.Is(err, annals.ErrConflict) {
							return fmt.Errorf("an append from before the delete: %w", err)
						}
						return nil
					},
				}
			},
			func(e *entity, x plan.Executor) error {
				if last, err := e.offer.On(x).Journal.LastSeqNr(e.ctx, entityID); last != 4 || err != nil {
					return fmt.Errorf("the last number is %d, %w", last, err)
				}
				return nil
			})
	})
}

func TestOrdersOfReplay(t *testing.T) {
	t.Parallel()
	for from := annals.SeqNr(1); from <= 4; from++ {
		t.Run(fmt.Sprint("beside appends, from ", from), func(t *testing.T) {
			everyOrder(t, Layout{}, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.write(x, 3) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error { return e.write(x, 1, 2) },
						func(x plan.Executor) error { return e.replays(x, from, annals.MaxSeqNr, true) },
					}
				}, nil)
		})
	}
	for deleted := annals.SeqNr(1); deleted <= 5; deleted++ {
		for _, to := range []annals.SeqNr{4, annals.MaxSeqNr} {
			t.Run(fmt.Sprintf("up to %d, beside a delete to %d", to, deleted), func(t *testing.T) {
				everyOrder(t, Layout{}, plantest.Orders{Page: 2, Late: true},
					func(e *entity, x plan.Executor) error { return e.write(x, 1, 4) },
					func(e *entity) []process {
						return []process{
							inTurn(func(x plan.Executor) error { return e.deleteTo(x, deleted) }, func(x plan.Executor) error { return e.write(x, 1) }),
							func(x plan.Executor) error { return e.replays(x, 1, to, false) },
						}
					}, func(e *entity, x plan.Executor) error { return e.replays(x, deleted+1, annals.MaxSeqNr, true) })
			})
		}
	}
}

func TestOrdersOfRecovery(t *testing.T) {
	t.Parallel()
	t.Run("beside the owner's snapshots and deletes", func(t *testing.T) {
		everyOrder(t, Layout{}, plantest.Orders{},
			func(e *entity, x plan.Executor) error {
				return errors.Join(e.write(x, 1, 2, 1), e.save(x, 2), e.deleteTo(x, 2))
			},
			func(e *entity) []process {
				return []process{
					inTurn(
						func(x plan.Executor) error { return e.save(x, 4) },
						func(x plan.Executor) error { return e.deleteTo(x, 4) },
						func(x plan.Executor) error { return e.prune(x, 3) },
						func(x plan.Executor) error { return e.write(x, 1) },
					),
					e.recovers,
				}
			}, func(e *entity, x plan.Executor) error { return e.recovers(x) })
	})
	t.Run("beside commits with snapshots, and deletes", func(t *testing.T) {
		everyOrder(t, Layout{Snapshot: Snapshot{Keep: 1}}, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.write(x, 2) },
			func(e *entity) []process {
				with := func(n annals.SeqNr) process {
					return func(x plan.Executor) error {
						s := snapshotOf(n, byte(n))
						return e.commit(x, annals.Commit{ID: entityID, After: n - 1, Events: []annals.NewEvent{plantest.Event("s")}, Snapshot: &s})
					}
				}
				return []process{inTurn(with(3), func(x plan.Executor) error { return e.deleteTo(x, 3) }, with(4)), e.recovers}
			}, func(e *entity, x plan.Executor) error { return e.recovers(x) })
	})
}

// Of saves the newest wins, and copies are those of the newest numbers, in whatever order saves and their retention run.
func TestOrdersOfSnapshots(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]time.Duration{"deleted": 0, "marked": time.Hour} {
		t.Run("copies are "+name, func(t *testing.T) {
			everyOrder(t, Layout{Snapshot: Snapshot{Keep: 2, Expire: expire}}, plantest.Orders{},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.write(x, 5), e.save(x, 1), e.save(x, 2))
				},
				func(e *entity) []process {
					return []process{
						inTurn(func(x plan.Executor) error { return e.save(x, 3) }, func(x plan.Executor) error { return e.save(x, 5) }),
						func(x plan.Executor) error { return e.save(x, 4) },
					}
				},
				func(e *entity, x plan.Executor) error {
					s, ok, err := e.offer.On(x).Snapshots.Latest(e.ctx, entityID, annals.SnapshotCriteria{})
					if s.SeqNr != 5 || !ok || err != nil {
						return fmt.Errorf("the newest snapshot is %d, %v, %w", s.SeqNr, ok, err)
					}
					var active []annals.SeqNr
					for it, err := range x.Query(e.ctx, plan.Query{Table: e.offer.Tables[1].Name, Index: e.offer.Tables[1].Indexes[0].Name, Hash: entityAID}) {
						if err != nil {
							return err
						}
						n, _ := plan.Number(it, attrPlace)
						active = append(active, annals.SeqNr(n))
					}
					// Copy 4 was dropped when 5 was saved before it.
					if !slices.Equal(active, []annals.SeqNr{4, 5}) && !slices.Equal(active, []annals.SeqNr{3, 5}) {
						return fmt.Errorf("the copies are %v", active)
					}
					return nil
				})
		})
	}
}

// The library and this layout write to one aggregate. One wins, both read all that was acknowledged, and no event is replaced.
func TestOrdersBesideTheLibrary(t *testing.T) {
	t.Parallel()
	for first := range annals.SeqNr(2) {
		t.Run(fmt.Sprint("writers after ", first), func(t *testing.T) {
			everyOrder(t, Layout{WriteIDs: true}, plantest.Orders{},
				func(e *entity, x plan.Executor) error {
					if first == 0 {
						return nil
					}
					e.acked = 1
					return newPeer(x, e.offer).persist(e.ctx, entityAID, 1, "p", true)
				},
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error {
							if err := e.append(x, first, 2, 'a'); err != nil && !errors.Is(err, annals.ErrConflict) {
								return err
							}
							return e.recovers(x)
						},
						func(x plan.Executor) error {
							switch err := newPeer(x, e.offer).persist(e.ctx, entityAID, first+1, "p", true); {
							case err == nil:
								e.acked = max(e.acked, first+1)
							case !errors.Is(err, errLock):
								return err
							}
							return e.peerLoads(x)
						},
						func(x plan.Executor) error { return e.deleteTo(x, first) }, // event 1 has a snapshot
					}
				},
				func(e *entity, x plan.Executor) error {
					if err := newPeer(x, e.offer).persist(e.ctx, entityAID, e.acked+1, "p", false); err != nil {
						return err
					}
					e.acked++
					if err := newPeer(x, e.offer).persist(e.ctx, entityAID, e.acked+2, "p", false); !errors.Is(err, errGap) {
						return fmt.Errorf("the library's write after a gap: %w", err)
					}
					return errors.Join(e.write(x, 1), e.replays(x, first+1, annals.MaxSeqNr, true), e.recovers(x))
				})
		})
	}
}

// peerLoads loads the aggregate as the library does. What it has read must go up to the number that was acknowledged before, without a hole
// behind the first event.
func (e *entity) peerLoads(x plan.Executor) error {
	acked := e.acked
	head, snapshot, events, err := newPeer(x, e.offer).load(e.ctx, entityAID)
	if err != nil {
		return err
	}
	last := snapshot
	for i, n := range events {
		if i > 0 && n != last+1 {
			return fmt.Errorf("the library reads the events %v", events)
		}
		last = n
	}
	if head < acked {
		return fmt.Errorf("the library reads the head %d, the snapshot %d and the events %v, and %d was acknowledged", head, snapshot, events, acked)
	}
	return nil
}
