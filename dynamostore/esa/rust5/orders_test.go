package rust5_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory, whose requests come in every order.
type entity struct{ *plantest.Entity }

const (
	entityID  = annals.PersistenceID("Thing|1")
	entityAID = "Thing-1"
)

type process = plantest.Process

// everyOrder runs processes in every order, on an entity that prepare writes before.
func everyOrder(t *testing.T, l esa.Layout, o plantest.Orders, prepare func(e *entity, x plan.Executor) error, processes func(e *entity) []process, end func(e *entity, x plan.Executor) error) {
	t.Helper()
	plantest.EveryOrderOf(t, o, func(*plantest.Run) (*entity, []plan.Table) {
		offer, err := l.Plan()
		if err != nil {
			t.Fatal(err)
		}
		return &entity{&plantest.Entity{Ctx: t.Context(), Offer: offer, ID: entityID, First: 1}}, offer.Tables
	}, prepare, processes, end)
}

func snapshotOf(n annals.SeqNr, data byte) annals.Snapshot {
	return annals.Snapshot{ID: entityID, SeqNr: n, Time: time.Unix(int64(n), 0), Payload: annals.Payload{SerializerID: 31, Data: []byte{data}}}
}

func (e *entity) save(x plan.Executor, n annals.SeqNr) error {
	return e.Offer.On(x).Snapshots.Save(e.Ctx, snapshotOf(n, byte(n)))
}

// commit appends event n with its snapshot.
func (e *entity) commit(x plan.Executor, n annals.SeqNr) error {
	s := snapshotOf(n, byte(n))
	r, err := e.Offer.On(x).Journal.Append(e.Ctx, annals.Commit{ID: entityID, After: n - 1, Events: []annals.NewEvent{plantest.Event("s")}, Snapshot: &s})
	e.Acked = max(e.Acked, r.SeqNr)
	return err
}

// Of writers with the same After one wins, and the others get the last number. A commit that is sent twice is stored once.
func TestOrdersOfAppends(t *testing.T) {
	t.Parallel()
	for after := range annals.SeqNr(2) {
		t.Run(fmt.Sprint("one of two wins, after ", after), func(t *testing.T) {
			won := map[*entity]int{}
			everyOrder(t, esa.Layout{Peer: esa.Rust5}, plantest.Orders{},
				func(e *entity, x plan.Executor) error { return e.Write(x, slices.Repeat([]int{1}, int(after))...) },
				func(e *entity) []process {
					writer := func(size int, by byte) process {
						return func(x plan.Executor) error {
							err := e.Append(x, after, size, by)
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
					return e.Replay(x, 1, annals.MaxSeqNr, true)
				})
		})
	}
	t.Run("the same commit twice", func(t *testing.T) {
		everyOrder(t, esa.Layout{Peer: esa.Rust5, WriteIDs: true}, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1) },
			func(e *entity) []process {
				send := func(x plan.Executor) error { return e.Append(x, 1, 2, 'a') }
				return []process{send, plantest.InTurn(send, func(x plan.Executor) error { return e.Append(x, 3, 1, 'a') })}
			},
			func(e *entity, x plan.Executor) error { return e.Replay(x, 1, annals.MaxSeqNr, true) })
	})
	t.Run("beside a delete of everything", func(t *testing.T) {
		everyOrder(t, esa.Layout{Peer: esa.Rust5, WriteIDs: true}, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 2) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) },
					plantest.InTurn(func(x plan.Executor) error { return e.Append(x, 3, 1, 'b') }, func(x plan.Executor) error { return e.Append(x, 3, 1, 'b') }),
					func(x plan.Executor) error {
						if err := e.Append(x, 1, 1, 'c'); !errors.Is(err, annals.ErrConflict) {
							return fmt.Errorf("an append from before the delete: %w", err)
						}
						return nil
					},
				}
			},
			func(e *entity, x plan.Executor) error {
				if last, err := e.Offer.On(x).Journal.LastSeqNr(e.Ctx, entityID); last != 4 || err != nil {
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
			everyOrder(t, esa.Layout{Peer: esa.Rust5}, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.Write(x, 3) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error { return e.Write(x, 1, 2) },
						func(x plan.Executor) error { return e.Replay(x, from, annals.MaxSeqNr, true) },
					}
				}, nil)
		})
	}
	for deleted := annals.SeqNr(1); deleted <= 5; deleted++ {
		for _, to := range []annals.SeqNr{4, annals.MaxSeqNr} {
			t.Run(fmt.Sprintf("up to %d, beside a delete to %d", to, deleted), func(t *testing.T) {
				everyOrder(t, esa.Layout{Peer: esa.Rust5}, plantest.Orders{Page: 2, Late: true},
					func(e *entity, x plan.Executor) error { return e.Write(x, 1, 4) },
					func(e *entity) []process {
						return []process{
							plantest.InTurn(func(x plan.Executor) error { return e.DeleteTo(x, deleted) }, func(x plan.Executor) error { return e.Write(x, 1) }),
							func(x plan.Executor) error { return e.Replay(x, 1, to, false) },
						}
					}, func(e *entity, x plan.Executor) error { return e.Replay(x, deleted+1, annals.MaxSeqNr, true) })
			})
		}
	}
}

// A replay that shows a delete shows the events that were stored before the delete.
func TestOrdersOfReplayBesideAppendThenDelete(t *testing.T) {
	everyOrder(t, esa.Layout{Peer: esa.Rust5}, plantest.Orders{Page: 2},
		func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1) },
		func(e *entity) []process {
			return []process{func(x plan.Executor) error {
				var all []annals.SeqNr
				for ev, err := range e.Offer.On(x).Journal.Replay(e.Ctx, entityID, 1, annals.MaxSeqNr) {
					if errors.Is(err, annals.ErrTruncated) {
						return nil
					}
					if err != nil {
						return err
					}
					all = append(all, ev.SeqNr)
				}
				if len(all) == 0 || all[0] > 1 && all[len(all)-1] < 4 {
					return fmt.Errorf("replayed %v", all)
				}
				return nil
			}, func(x plan.Executor) error {
				return errors.Join(e.Append(x, 2, 2, 'a'), e.Offer.On(x).Journal.DeleteTo(e.Ctx, entityID, 2))
			}}
		}, nil)
}

func TestOrdersOfRecovery(t *testing.T) {
	t.Parallel()
	t.Run("beside the owner's snapshots and deletes", func(t *testing.T) {
		everyOrder(t, esa.Layout{Peer: esa.Rust5}, plantest.Orders{},
			func(e *entity, x plan.Executor) error {
				return errors.Join(e.Write(x, 1, 2, 1), e.save(x, 2), e.DeleteTo(x, 2))
			},
			func(e *entity) []process {
				return []process{
					plantest.InTurn(
						func(x plan.Executor) error { return e.save(x, 4) },
						func(x plan.Executor) error { return e.DeleteTo(x, 4) },
						func(x plan.Executor) error { return e.Prune(x, 3) },
						func(x plan.Executor) error { return e.Write(x, 1) },
					),
					e.Recover,
				}
			}, func(e *entity, x plan.Executor) error { return e.Recover(x) })
	})
	t.Run("beside commits with snapshots, and deletes", func(t *testing.T) {
		everyOrder(t, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1}}, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.Write(x, 2) },
			func(e *entity) []process {
				with := func(n annals.SeqNr) process {
					return func(x plan.Executor) error { return e.commit(x, n) }
				}
				return []process{plantest.InTurn(with(3), func(x plan.Executor) error { return e.DeleteTo(x, 3) }, with(4)), e.Recover}
			}, func(e *entity, x plan.Executor) error { return e.Recover(x) })
	})
}

// Beside deletes, reads of an entity whose number 5 was left unused miss no other number behind their first one.
func TestOrdersOfGaps(t *testing.T) {
	t.Parallel()
	follows := func(what string, acked annals.SeqNr) func(last *annals.SeqNr, n annals.SeqNr) error {
		return func(last *annals.SeqNr, n annals.SeqNr) error {
			if before := *last; before != 0 && n != before+1 && (before != 4 || n != 6) {
				return fmt.Errorf("%s: event %d after %d, and %d was acknowledged", what, n, before, acked)
			}
			*last = n
			return nil
		}
	}
	replay := func(e *entity) process {
		return func(x plan.Executor) error {
			acked, last := e.Acked, annals.SeqNr(0)
			next := follows("replay", acked)
			for ev, err := range e.Offer.On(x).Journal.Replay(e.Ctx, entityID, 1, annals.MaxSeqNr) {
				if errors.Is(err, annals.ErrTruncated) {
					return nil
				}
				if err := errors.Join(err, next(&last, ev.SeqNr)); err != nil {
					return err
				}
			}
			if last > 0 && last < acked {
				return fmt.Errorf("the replay ends with %d, and %d was acknowledged", last, acked)
			}
			return nil
		}
	}
	recovery := func(e *entity) process {
		return func(x plan.Executor) error {
			acked, covered := e.Acked, annals.SeqNr(0)
			next := follows("recovery", acked)
			last, err := e.Offer.On(x).Recover(e.Ctx, entityID, func(s annals.Snapshot) error { covered = s.SeqNr; return nil }, func(ev annals.Event) error { return next(&covered, ev.SeqNr) })
			if err == nil && (last < acked || covered != last) {
				err = fmt.Errorf("recovered %d with the last number %d, and %d was acknowledged", covered, last, acked)
			}
			return err
		}
	}
	for what, read := range map[string]func(e *entity) process{"replay": replay, "recovery": recovery} {
		t.Run(what, func(t *testing.T) {
			everyOrder(t, esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Gaps: true}}, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.Write(x, 1, 1, 1, 1, 1, 1, 1), x.DeleteAll(e.Ctx, "journal", []plan.Item{{"aid": plan.S(entityAID), "seq_nr": plan.N(5)}}))
				},
				func(e *entity) []process {
					return []process{plantest.InTurn(func(x plan.Executor) error { return e.save(x, 4) }, func(x plan.Executor) error { return e.DeleteTo(x, 4) }, func(x plan.Executor) error { return e.Write(x, 1) }), read(e)}
				}, nil)
		})
	}
}

// Of saves the newest wins, and copies are those of the newest numbers, in whatever order saves and their retention run.
func TestOrdersOfSnapshots(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]time.Duration{"deleted": 0, "marked": time.Hour} {
		t.Run("copies are "+name, func(t *testing.T) {
			everyOrder(t, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 2, Expire: expire}}, plantest.Orders{},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.Write(x, 5), e.save(x, 1), e.save(x, 2))
				},
				func(e *entity) []process {
					return []process{
						plantest.InTurn(func(x plan.Executor) error { return e.save(x, 3) }, func(x plan.Executor) error { return e.save(x, 5) }),
						func(x plan.Executor) error { return e.save(x, 4) },
					}
				},
				func(e *entity, x plan.Executor) error {
					s, ok, err := e.Offer.On(x).Snapshots.Latest(e.Ctx, entityID, annals.SnapshotCriteria{})
					if s.SeqNr != 5 || !ok || err != nil {
						return fmt.Errorf("the newest snapshot is %d, %v, %w", s.SeqNr, ok, err)
					}
					var active []annals.SeqNr
					for it, err := range x.Query(e.Ctx, plan.Query{Table: e.Offer.Tables[1].Name, Index: e.Offer.Tables[1].Indexes[0].Name, Hash: entityAID}) {
						if err != nil {
							return err
						}
						n, _ := plan.Number(it, "skey")
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
			everyOrder(t, esa.Layout{Peer: esa.Rust5, WriteIDs: true}, plantest.Orders{},
				func(e *entity, x plan.Executor) error {
					if first == 0 {
						return nil
					}
					e.Acked = 1
					return newPeer(x, e.Offer).persist(e.Ctx, entityAID, 1, "p", true)
				},
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error {
							if err := e.Append(x, first, 2, 'a'); err != nil && !errors.Is(err, annals.ErrConflict) {
								return err
							}
							return e.Recover(x)
						},
						func(x plan.Executor) error {
							switch err := newPeer(x, e.Offer).persist(e.Ctx, entityAID, first+1, "p", true); {
							case err == nil:
								e.Acked = max(e.Acked, first+1)
							case !errors.Is(err, errLock):
								return err
							}
							return e.peerLoads(x)
						},
						func(x plan.Executor) error { return e.DeleteTo(x, first) }, // event 1 has a snapshot
					}
				},
				func(e *entity, x plan.Executor) error {
					if err := newPeer(x, e.Offer).persist(e.Ctx, entityAID, e.Acked+1, "p", false); err != nil {
						return err
					}
					e.Acked++
					if err := newPeer(x, e.Offer).persist(e.Ctx, entityAID, e.Acked+2, "p", false); !errors.Is(err, errGap) {
						return fmt.Errorf("the library's write after a gap: %w", err)
					}
					return errors.Join(e.Write(x, 1), e.Replay(x, first+1, annals.MaxSeqNr, true), e.Recover(x))
				})
		})
	}
}

// peerLoads loads the aggregate as the library does. What it has read must go up to the number that was acknowledged before, without a hole
// behind the first event.
func (e *entity) peerLoads(x plan.Executor) error {
	acked := e.Acked
	head, snapshot, events, err := newPeer(x, e.Offer).load(e.Ctx, entityAID)
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
