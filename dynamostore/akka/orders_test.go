package akka

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory. Its first event has the number 97, so that it soon needs a second group.
type entity struct{ plantest.Entity }

const (
	entityID = annals.PersistenceID("order-1")
	before   = annals.SeqNr(96)
)

type process = plantest.Process

// everyOrder runs processes in every order, on an entity that prepare writes before.
func everyOrder(t *testing.T, o plantest.Orders, prepare func(e *entity, x plan.Executor) error, processes func(e *entity) []process, end func(e *entity, x plan.Executor) error) {
	t.Helper()
	plantest.EveryOrderOf(t, o, func(*plantest.Run) (*entity, []plan.Table) {
		offer, err := Layout{Journal: Journal{SequenceShards: 2}}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		return &entity{plantest.Entity{Ctx: t.Context(), Offer: offer, ID: entityID, First: before + 1, Acked: before}}, offer.Tables
	}, func(e *entity, x plan.Executor) error {
		j := e.Offer.On(x).Journal.(*journal)
		_, err := x.Write(e.Ctx, plan.Write{Ops: []plan.Op{j.putLow(entityID, before+1)}})
		return errors.Join(err, prepare(e, x))
	}, processes, end)
}

func (e *entity) save(x plan.Executor, n annals.SeqNr) error {
	return e.Offer.On(x).Snapshots.Save(e.Ctx, annals.Snapshot{ID: entityID, SeqNr: n, Time: time.Unix(int64(n), 0), Payload: annals.Payload{SerializerID: 4, Data: []byte{byte(n)}}})
}

// lasts reads the last number some times. It must not go down, nor be below what was acknowledged before.
func (e *entity) lasts(x plan.Executor, times int) error {
	least := annals.SeqNr(0)
	for range times {
		least = max(least, e.Acked)
		last, err := e.Offer.On(x).Journal.LastSeqNr(e.Ctx, entityID)
		if err != nil || last < least {
			return fmt.Errorf("the last number is %d, %v, want at least %d", last, err, least)
		}
		least = last
	}
	return nil
}

func TestOrdersOfReplay(t *testing.T) {
	t.Parallel()
	for from := annals.SeqNr(97); from <= 102; from++ {
		t.Run(fmt.Sprint("beside appends, from ", from), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.Write(x, 1) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error { return e.Write(x, 1, 2, 1) },
						func(x plan.Executor) error { return e.Replay(x, from, annals.MaxSeqNr, true) },
					}
				}, nil)
		})
	}
	for deleted := annals.SeqNr(98); deleted <= 101; deleted++ {
		for to, name := range map[annals.SeqNr]string{annals.MaxSeqNr: "", 100: ", up to 100"} {
			t.Run(fmt.Sprintf("beside a delete to %d%s", deleted, name), func(t *testing.T) {
				everyOrder(t, plantest.Orders{Page: 2},
					func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1, 3) },
					func(e *entity) []process {
						return []process{
							plantest.InTurn(func(x plan.Executor) error { return e.DeleteTo(x, deleted) }, func(x plan.Executor) error { return e.Write(x, 1) }),
							func(x plan.Executor) error { return e.Replay(x, 98, to, false) },
						}
					}, func(e *entity, x plan.Executor) error { return e.Replay(x, deleted+1, annals.MaxSeqNr, true) })
			})
		}
	}
}

// A group of several pages is not of one moment.
func TestOrdersOfReplayOverPages(t *testing.T) {
	everyOrder(t, plantest.Orders{Page: 2},
		func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1, 1) },
		func(e *entity) []process {
			return []process{
				func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) },
				func(x plan.Executor) error { return e.Replay(x, 97, annals.MaxSeqNr, false) },
			}
		}, nil)
}

func TestOrdersOfDeletes(t *testing.T) {
	t.Parallel()
	t.Run("the last number beside deletes of everything", func(t *testing.T) {
		everyOrder(t, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1, 2) },
			func(e *entity) []process {
				return []process{
					plantest.InTurn(func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) }, func(x plan.Executor) error { return e.Write(x, 1) },
						func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) }),
					func(x plan.Executor) error { return e.lasts(x, 2) },
				}
			}, func(e *entity, x plan.Executor) error { return e.lasts(x, 1) })
	})
	t.Run("two at a time", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1, 1, 1) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.DeleteTo(x, 99) },
					func(x plan.Executor) error { return e.DeleteTo(x, 98) },
				}
			}, func(e *entity, x plan.Executor) error { return e.Replay(x, 100, annals.MaxSeqNr, true) })
	})
}

func TestOrdersOfRecovery(t *testing.T) {
	t.Parallel()
	t.Run("beside the owner's snapshots and deletes", func(t *testing.T) {
		everyOrder(t, plantest.Orders{},
			func(e *entity, x plan.Executor) error {
				return errors.Join(e.Write(x, 1, 2, 1), e.save(x, 98), e.DeleteTo(x, 98))
			},
			func(e *entity) []process {
				return []process{
					plantest.InTurn(
						func(x plan.Executor) error { return e.save(x, 100) },
						func(x plan.Executor) error { return e.DeleteTo(x, 100) },
						func(x plan.Executor) error { return e.Prune(x, 99) },
						func(x plan.Executor) error { return e.Write(x, 1) },
					),
					e.Recover,
				}
			}, func(e *entity, x plan.Executor) error { return e.Recover(x) })
	})
	t.Run("beside a delete of an entity without snapshots", func(t *testing.T) {
		everyOrder(t, plantest.Orders{},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) },
					func(x plan.Executor) error {
						last, err := e.Offer.On(x).Recover(e.Ctx, entityID, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
						if !errors.Is(err, annals.ErrTruncated) && (err != nil || last != e.Acked) {
							return fmt.Errorf("the last number is %d, %v, want %d", last, err, e.Acked)
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
				func(e *entity, x plan.Executor) error { return e.Write(x, 1, int(after-before)-1) },
				func(e *entity) []process {
					won := 0
					writer := func(size int, by byte) process {
						return func(x plan.Executor) error {
							err := e.Append(x, after, size, by)
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
					return errors.Join(e.lasts(x, 1), e.Replay(x, 97, annals.MaxSeqNr, true))
				})
		})
	}
}
