package commit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory. Snapshots above smallBytes have parts.
type entity struct {
	plantest.Entity
	refused bool // an append met a conflict
}

const smallBytes = 200

type process = plantest.Process

// everyOrder runs processes in every order, on an entity that prepare writes before.
func everyOrder(t *testing.T, o plantest.Orders, prepare func(e *entity, x plan.Executor) error, processes func(e *entity) []process, end func(e *entity, x plan.Executor) error) {
	t.Helper()
	plantest.EveryOrderOf(t, o, func(s *plantest.Run) (*entity, []plan.Table) {
		offer, err := commit.Plan(commit.Layout{}, smallBytes, func(save []byte) { binary.BigEndian.PutUint64(save, s.Unique()) })
		if err != nil {
			t.Fatal(err)
		}
		return newEntity(t.Context(), offer), offer.Tables
	}, prepare, processes, end)
}

// newEntity returns an entity whose events have the data 'a', and other data after it has been forgotten.
func newEntity(ctx context.Context, offer plan.Offer) *entity {
	return &entity{Entity: plantest.Entity{Ctx: ctx, Offer: offer, ID: id, First: 1, Forgotten: true}}
}

// state returns the data of a snapshot of number n; if large is set, more than fits into an item. version distinguishes saves of one number.
func state(n annals.SeqNr, version int, large bool) []byte {
	data := fmt.Appendf(nil, "%d.%d ", n, version)
	if large {
		more := make([]byte, smallBytes)
		_, _ = rand.NewChaCha8([32]byte{byte(n), byte(version)}).Read(more)
		data = append(data, more...)
	}
	return data
}

func (e *entity) save(x plan.Executor, n annals.SeqNr, version int, large bool) error {
	return e.Offer.On(x).Snapshots.Save(e.Ctx, annals.Snapshot{ID: e.ID, SeqNr: n, Time: time.Unix(int64(n), 0),
		Payload: annals.Payload{SerializerID: 4, Data: state(n, version, large)}})
}

// latest returns the number and the version of the newest snapshot up to a number; 0 when there is none.
func (e *entity) latest(x plan.Executor, to annals.SeqNr) (n annals.SeqNr, version int, err error) {
	s, ok, err := e.Offer.On(x).Snapshots.Latest(e.Ctx, e.ID, annals.SnapshotCriteria{MaxSeqNr: to})
	if !ok || err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscanf(string(bytes.SplitN(s.Data, []byte(" "), 2)[0]), "%d.%d", &n, &version); err != nil || n != s.SeqNr {
		return 0, 0, fmt.Errorf("snapshot %d has the data of %d, %v", s.SeqNr, n, err)
	}
	if !bytes.Equal(s.Data, state(n, version, false)) && !bytes.Equal(s.Data, state(n, version, true)) {
		return 0, 0, fmt.Errorf("snapshot %d is not whole", s.SeqNr)
	}
	return n, version, nil
}

func TestOrdersOfReplay(t *testing.T) {
	t.Parallel()
	for from := annals.SeqNr(2); from <= 6; from++ {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error { return e.Write(x, 1, 2, 1, 1) },
						func(x plan.Executor) error { return e.Replay(x, from, annals.MaxSeqNr, true) },
					}
				}, nil)
		})
	}
	for from := annals.SeqNr(1); from <= 3; from++ {
		t.Run(fmt.Sprint("of an entity that is forgotten, from ", from), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.Write(x, 1, 2, 1) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error {
							if err := e.forget(x); err != nil {
								return err
							}
							return errors.Join(e.Append(x, 0, 1, 'b'), e.Append(x, 1, 2, 'b'), e.Append(x, 3, 1, 'b'), e.Append(x, 4, 1, 'b'))
						},
						func(x plan.Executor) error { return e.Replay(x, from, annals.MaxSeqNr, false) },
					}
				}, nil)
		})
	}
}

func TestOrdersOfSnapshots(t *testing.T) {
	t.Parallel()
	t.Run("a number saved twice", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1) },
			func(e *entity) []process {
				return []process{
					plantest.InTurn(
						func(x plan.Executor) error { return e.save(x, 2, 1, true) },
						func(x plan.Executor) error { return e.save(x, 2, 2, false) },
						func(x plan.Executor) error { return e.DeleteTo(x, 2) },
					),
					e.Recover,
				}
			},
			func(e *entity, x plan.Executor) error {
				if _, version, err := e.latest(x, annals.MaxSeqNr); err != nil || version != 2 {
					return fmt.Errorf("the newest snapshot is of version %d, %v, want that saved last", version, err)
				}
				return e.Recover(x)
			})
	})
	t.Run("a number saved by two", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 2) },
			func(e *entity) []process {
				return []process{
					func(x plan.Executor) error { return e.save(x, 2, 1, true) },
					func(x plan.Executor) error { return e.save(x, 2, 2, false) },
				}
			},
			func(e *entity, x plan.Executor) error {
				if n, _, err := e.latest(x, annals.MaxSeqNr); err != nil || n != 2 {
					return fmt.Errorf("the newest snapshot is %d, %v", n, err)
				}
				return nil
			})
	})
	t.Run("one takes the place of another", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Page: 2},
			func(e *entity, x plan.Executor) error {
				return errors.Join(e.Write(x, 1, 1, 1, 1), e.save(x, 1, 1, true))
			},
			func(e *entity) []process {
				return []process{
					plantest.InTurn(
						func(x plan.Executor) error { return e.save(x, 3, 1, true) },
						func(x plan.Executor) error { return e.Prune(x, 2) },
						func(x plan.Executor) error { return e.save(x, 4, 1, false) },
						func(x plan.Executor) error { return e.Prune(x, 3) },
					),
					func(x plan.Executor) error {
						if n, _, err := e.latest(x, annals.MaxSeqNr); err != nil || n == 0 {
							return fmt.Errorf("the newest snapshot is %d, %v, though there is always one", n, err)
						}
						return nil
					},
				}
			}, nil)
	})
	t.Run("deleted, they stay deleted", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1) },
			func(e *entity) []process {
				return []process{plantest.InTurn(
					func(x plan.Executor) error { return e.save(x, 1, 1, false) },
					func(x plan.Executor) error { return e.save(x, 2, 1, true) },
					func(x plan.Executor) error { return e.save(x, 2, 2, false) },
					func(x plan.Executor) error { return e.Prune(x, 1) },
					func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) },
					func(x plan.Executor) error { return e.Prune(x, annals.MaxSeqNr) },
				)}
			},
			func(e *entity, x plan.Executor) error {
				if n, _, err := e.latest(x, annals.MaxSeqNr); err != nil || n != 0 {
					return fmt.Errorf("the newest snapshot is %d, %v, want none", n, err)
				}
				return nil
			})
	})
	t.Run("deleted, and saved again", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1) },
			func(e *entity) []process {
				return []process{plantest.InTurn(
					func(x plan.Executor) error { return e.save(x, 2, 1, true) },
					func(x plan.Executor) error { return e.Prune(x, 2) },
					func(x plan.Executor) error { return e.save(x, 2, 2, true) },
				)}
			},
			func(e *entity, x plan.Executor) error {
				if _, version, err := e.latest(x, annals.MaxSeqNr); err != nil || version != 2 {
					return fmt.Errorf("the newest snapshot is of version %d, %v, want that saved last", version, err)
				}
				return nil
			})
	})
}

func TestOrdersOfRecovery(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside the owner's snapshots and deletes, large %v", large), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2, Late: !large},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.Write(x, 1, 2), e.save(x, 1, 1, large), e.DeleteTo(x, 1))
				},
				func(e *entity) []process {
					return []process{
						plantest.InTurn(
							func(x plan.Executor) error { return e.save(x, 3, 1, large) },
							func(x plan.Executor) error { return e.DeleteTo(x, 3) },
							func(x plan.Executor) error { return e.Prune(x, 2) },
							func(x plan.Executor) error { return e.Write(x, 1) },
						),
						e.Recover,
					}
				},
				func(e *entity, x plan.Executor) error { return e.Recover(x) })
		})
	}
	t.Run("beside a snapshot that is saved again", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Page: 2},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 1, 1, 1) },
			func(e *entity) []process {
				return []process{
					plantest.InTurn(
						func(x plan.Executor) error { return e.save(x, 3, 1, true) },
						func(x plan.Executor) error { return e.DeleteTo(x, 3) },
						func(x plan.Executor) error { return e.save(x, 3, 2, false) },
					),
					e.Recover,
				}
			}, nil)
	})
	t.Run("beside snapshots within a commit", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Page: 2},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1, 3, 1, 1) },
			func(e *entity) []process {
				return []process{
					plantest.InTurn(
						func(x plan.Executor) error { return e.save(x, 2, 1, true) },
						func(x plan.Executor) error { return e.save(x, 2, 2, true) },
						func(x plan.Executor) error { return e.DeleteTo(x, 2) },
						func(x plan.Executor) error { return e.save(x, 5, 1, false) },
						func(x plan.Executor) error { return e.DeleteTo(x, 5) },
						func(x plan.Executor) error { return e.Prune(x, 4) },
					),
					e.Recover,
				}
			},
			func(e *entity, x plan.Executor) error { return e.Recover(x) })
	})
}

// forget deletes all events and forgets the entity.
func (e *entity) forget(x plan.Executor) error {
	if err := e.DeleteTo(x, annals.MaxSeqNr); err != nil {
		return err
	}
	_, err := e.Offer.On(x).Forget(e.Ctx, ability.Forgetting{ID: e.ID})
	if err == nil {
		e.Acked = 0
	}
	return err
}

func TestOrdersOfRecoveryBesideForget(t *testing.T) {
	everyOrder(t, plantest.Orders{Page: 2},
		func(e *entity, x plan.Executor) error { return e.Write(x, 1, 2, 1) },
		func(e *entity) []process {
			return []process{
				func(x plan.Executor) error {
					if err := e.forget(x); err != nil {
						return err
					}
					return errors.Join(e.Append(x, 0, 2, 'b'), e.Append(x, 2, 1, 'b'), e.Append(x, 3, 1, 'b'))
				},
				func(x plan.Executor) error {
					life := ""
					_, err := e.Offer.On(x).Recover(e.Ctx, e.ID, func(annals.Snapshot) error { return nil }, func(ev annals.Event) error {
						life += string(ev.Data)
						return nil
					})
					if errors.Is(err, annals.ErrTruncated) || err == nil && (strings.Trim(life, "a") == "" || strings.Trim(life, "b") == "") {
						return nil
					}
					return fmt.Errorf("recovered events %q, %w", life, err)
				},
			}
		}, nil)
}

func TestOrdersOfAppends(t *testing.T) {
	t.Parallel()
	t.Run("one of two wins", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.Write(x, 1) },
			func(e *entity) []process {
				won := 0
				writer := func(life byte) process {
					return func(x plan.Executor) error {
						err := e.Append(x, 1, 2, life)
						if errors.Is(err, annals.ErrConflict) {
							return nil
						}
						if won++; won > 1 {
							return errors.New("both have won")
						}
						return err
					}
				}
				return []process{writer('a'), writer('b'), func(x plan.Executor) error { return e.DeleteTo(x, annals.MaxSeqNr) }}
			},
			func(e *entity, x plan.Executor) error {
				if last, err := e.Offer.On(x).Journal.LastSeqNr(e.Ctx, e.ID); err != nil || last != 3 {
					return fmt.Errorf("the last number is %d, %v, want 3", last, err)
				}
				return nil
			})
	})
	for after, want := range map[annals.SeqNr]string{3: "[4b]", 0: "[1b]"} {
		t.Run(fmt.Sprintf("after %d beside a forgetting", after), func(t *testing.T) {
			everyOrder(t, plantest.Orders{},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.Write(x, 1, 1, 1), e.save(x, 2, 1, true), e.save(x, 3, 1, false), e.DeleteTo(x, 3), e.Prune(x, 3))
				},
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error {
							done, err := e.Offer.On(x).Forget(e.Ctx, ability.Forgetting{ID: e.ID})
							if errors.Is(err, annals.ErrConflict) || done {
								return nil
							}
							return fmt.Errorf("forget: %v, %w", done, err)
						},
						func(x plan.Executor) error {
							err := e.Append(x, after, 1, 'b')
							if errors.Is(err, annals.ErrConflict) {
								e.refused = true
								return nil
							}
							return err
						},
					}
				},
				func(e *entity, x plan.Executor) error {
					var got []string
					for ev, err := range e.Offer.On(x).Journal.Replay(e.Ctx, e.ID, 1, annals.MaxSeqNr) {
						if err != nil {
							return err
						}
						got = append(got, fmt.Sprintf("%d%s", ev.SeqNr, ev.Data))
					}
					if text := fmt.Sprint(got); text != want && !e.refused || text != "[]" && e.refused {
						return fmt.Errorf("replay: %s, append refused: %v", text, e.refused)
					}
					return nil
				})
		})
	}
}
