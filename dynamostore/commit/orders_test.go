package commit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// entity is an entity in tables in memory, whose requests come in every order. Snapshots above smallBytes have parts.
type entity struct {
	ctx   context.Context
	offer plan.Offer
	id    annals.PersistenceID
	acked annals.SeqNr // the last number that was acknowledged

	refused bool // an append met a conflict
}

const smallBytes = 200

type process = func(x plan.Executor) error

// everyOrder runs processes in every order, on an entity that prepare writes before.
func everyOrder(t *testing.T, o plantest.Orders, prepare func(e *entity, x plan.Executor) error, processes func(e *entity) []process, end func(e *entity, x plan.Executor) error) {
	t.Helper()
	t.Parallel()
	plantest.EveryOrder(t, o, func(s *plantest.Run) plantest.Scenario {
		offer, err := commit.Plan(commit.Layout{}, smallBytes, func(save []byte) { binary.BigEndian.PutUint64(save, s.Unique()) })
		if err != nil {
			t.Fatal(err)
		}
		e := &entity{ctx: t.Context(), offer: offer, id: id}
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

// append stores events with a letter as their data. After the entity has been forgotten they have another letter.
func (e *entity) append(x plan.Executor, after annals.SeqNr, size int, life byte) error {
	c := annals.Commit{ID: e.id, After: after, WriteID: annals.WriteID{15: byte(after) + 1, 14: life}}
	for range size {
		c.Events = append(c.Events, plantest.Event(string(life)))
	}
	r, err := e.offer.On(x).Journal.Append(e.ctx, c)
	if err == nil {
		e.acked = max(e.acked, r.SeqNr)
	}
	return err
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
	return e.offer.On(x).Snapshots.Save(e.ctx, annals.Snapshot{ID: e.id, SeqNr: n, Time: time.Unix(int64(n), 0),
		Payload: annals.Payload{SerializerID: 4, Data: state(n, version, large)}})
}

func (e *entity) prune(x plan.Executor, to annals.SeqNr) error {
	return e.offer.On(x).Snapshots.Delete(e.ctx, e.id, annals.SnapshotCriteria{MaxSeqNr: to})
}

func (e *entity) deleteTo(x plan.Executor, to annals.SeqNr) error {
	return e.offer.On(x).Journal.DeleteTo(e.ctx, e.id, to)
}

// latest returns the number and the version of the newest snapshot up to a number; 0 when there is none.
func (e *entity) latest(x plan.Executor, to annals.SeqNr) (n annals.SeqNr, version int, err error) {
	s, ok, err := e.offer.On(x).Snapshots.Latest(e.ctx, e.id, annals.SnapshotCriteria{MaxSeqNr: to})
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

// recovers recovers the entity. The result must be complete: a snapshot or none, and every event after it, all with the same letter. After
// ErrTruncated it tries again.
func (e *entity) recovers(x plan.Executor) (last annals.SeqNr, err error) {
	for {
		before := e.acked
		covered, life, fault := annals.SeqNr(0), "", error(nil)
		last, err := e.offer.On(x).Recover(e.ctx, e.id, func(s annals.Snapshot) error {
			covered, life, fault = s.SeqNr, "", nil // it replaces what was handed over before
			return nil
		}, func(ev annals.Event) error {
			if ev.SeqNr != covered+1 || life != "" && life != string(ev.Data) {
				fault = fmt.Errorf("recovery has event %d of life %q after %d of life %q", ev.SeqNr, ev.Data, covered, life)
			}
			covered, life = ev.SeqNr, string(ev.Data)
			return nil
		})
		switch {
		case errors.Is(err, annals.ErrTruncated):
			continue
		case err != nil:
			return 0, fmt.Errorf("recovery: %w", err)
		case fault != nil:
			return 0, fault
		case last != covered || last < before:
			return 0, fmt.Errorf("recovery has come to %d of %d, want at least %d", covered, last, before)
		}
		return last, nil
	}
}

// replays reads events from a number on. They must be consecutive, with the same letter. If whole is set, they must begin with that number
// and include all that were acknowledged before.
func (e *entity) replays(x plan.Executor, from annals.SeqNr, whole bool) error {
	before, life := e.acked, ""
	next := annals.SeqNr(0)
	if whole {
		next = from
	}
	for ev, err := range e.offer.On(x).Journal.Replay(e.ctx, e.id, from, annals.MaxSeqNr) {
		if errors.Is(err, annals.ErrTruncated) && !whole {
			return nil
		}
		if err != nil {
			return fmt.Errorf("replay from %d: %w", from, err)
		}
		if next != 0 && ev.SeqNr != next || life != "" && life != string(ev.Data) {
			return fmt.Errorf("replay from %d: event %d of life %q, want %d of life %q", from, ev.SeqNr, ev.Data, next, life)
		}
		next, life = ev.SeqNr+1, string(ev.Data)
	}
	if whole && next <= before {
		return fmt.Errorf("replay from %d ends before %d, want at least up to %d", from, next, before)
	}
	return nil
}

// one after another, until one fails.
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
	for from := annals.SeqNr(2); from <= 6; from++ {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.write(x, 1, 1) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error { return e.write(x, 1, 2, 1, 1) },
						func(x plan.Executor) error { return e.replays(x, from, true) },
					}
				}, nil)
		})
	}
	for from := annals.SeqNr(1); from <= 3; from++ {
		t.Run(fmt.Sprint("of an entity that is forgotten, from ", from), func(t *testing.T) {
			everyOrder(t, plantest.Orders{Page: 2},
				func(e *entity, x plan.Executor) error { return e.write(x, 1, 2, 1) },
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error {
							if err := e.deleteTo(x, annals.MaxSeqNr); err != nil {
								return err
							}
							if _, err := e.offer.On(x).Forget(e.ctx, annals.Forgetting{ID: e.id}); err != nil {
								return err
							}
							e.acked = 0
							return errors.Join(e.append(x, 0, 1, 'b'), e.append(x, 1, 2, 'b'), e.append(x, 3, 1, 'b'), e.append(x, 4, 1, 'b'))
						},
						func(x plan.Executor) error { return e.replays(x, from, false) },
					}
				}, nil)
		})
	}
}

func TestOrdersOfSnapshots(t *testing.T) {
	t.Parallel()
	t.Run("a number saved twice", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1) },
			func(e *entity) []process {
				return []process{
					inTurn(
						func(x plan.Executor) error { return e.save(x, 2, 1, true) },
						func(x plan.Executor) error { return e.save(x, 2, 2, false) },
						func(x plan.Executor) error { return e.deleteTo(x, 2) },
					),
					func(x plan.Executor) error { _, err := e.recovers(x); return err },
				}
			},
			func(e *entity, x plan.Executor) error {
				if _, version, err := e.latest(x, annals.MaxSeqNr); err != nil || version != 2 {
					return fmt.Errorf("the newest snapshot is of version %d, %v, want that saved last", version, err)
				}
				_, err := e.recovers(x)
				return err
			})
	})
	t.Run("a number saved by two", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.write(x, 2) },
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
				return errors.Join(e.write(x, 1, 1, 1, 1), e.save(x, 1, 1, true))
			},
			func(e *entity) []process {
				return []process{
					inTurn(
						func(x plan.Executor) error { return e.save(x, 3, 1, true) },
						func(x plan.Executor) error { return e.prune(x, 2) },
						func(x plan.Executor) error { return e.save(x, 4, 1, false) },
						func(x plan.Executor) error { return e.prune(x, 3) },
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
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1) },
			func(e *entity) []process {
				return []process{inTurn(
					func(x plan.Executor) error { return e.save(x, 1, 1, false) },
					func(x plan.Executor) error { return e.save(x, 2, 1, true) },
					func(x plan.Executor) error { return e.save(x, 2, 2, false) },
					func(x plan.Executor) error { return e.prune(x, 1) },
					func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) },
					func(x plan.Executor) error { return e.prune(x, annals.MaxSeqNr) },
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
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1) },
			func(e *entity) []process {
				return []process{inTurn(
					func(x plan.Executor) error { return e.save(x, 2, 1, true) },
					func(x plan.Executor) error { return e.prune(x, 2) },
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
					return errors.Join(e.write(x, 1, 2), e.save(x, 1, 1, large), e.deleteTo(x, 1))
				},
				func(e *entity) []process {
					return []process{
						inTurn(
							func(x plan.Executor) error { return e.save(x, 3, 1, large) },
							func(x plan.Executor) error { return e.deleteTo(x, 3) },
							func(x plan.Executor) error { return e.prune(x, 2) },
							func(x plan.Executor) error { return e.write(x, 1) },
						),
						func(x plan.Executor) error { _, err := e.recovers(x); return err },
					}
				},
				func(e *entity, x plan.Executor) error { _, err := e.recovers(x); return err })
		})
	}
	t.Run("beside a snapshot that is saved again", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Page: 2},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 1, 1, 1) },
			func(e *entity) []process {
				return []process{
					inTurn(
						func(x plan.Executor) error { return e.save(x, 3, 1, true) },
						func(x plan.Executor) error { return e.deleteTo(x, 3) },
						func(x plan.Executor) error { return e.save(x, 3, 2, false) },
					),
					func(x plan.Executor) error { _, err := e.recovers(x); return err },
				}
			}, nil)
	})
	t.Run("beside snapshots within a commit", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Page: 2},
			func(e *entity, x plan.Executor) error { return e.write(x, 1, 3, 1, 1) },
			func(e *entity) []process {
				return []process{
					inTurn(
						func(x plan.Executor) error { return e.save(x, 2, 1, true) },
						func(x plan.Executor) error { return e.save(x, 2, 2, true) },
						func(x plan.Executor) error { return e.deleteTo(x, 2) },
						func(x plan.Executor) error { return e.save(x, 5, 1, false) },
						func(x plan.Executor) error { return e.deleteTo(x, 5) },
						func(x plan.Executor) error { return e.prune(x, 4) },
					),
					func(x plan.Executor) error { _, err := e.recovers(x); return err },
				}
			},
			func(e *entity, x plan.Executor) error { _, err := e.recovers(x); return err })
	})
}

func TestOrdersOfAppends(t *testing.T) {
	t.Parallel()
	t.Run("one of two wins", func(t *testing.T) {
		everyOrder(t, plantest.Orders{Late: true},
			func(e *entity, x plan.Executor) error { return e.write(x, 1) },
			func(e *entity) []process {
				won := 0
				writer := func(life byte) process {
					return func(x plan.Executor) error {
						err := e.append(x, 1, 2, life)
						if errors.Is(err, annals.ErrConflict) {
							return nil
						}
						if won++; won > 1 {
							return errors.New("both have won")
						}
						return err
					}
				}
				return []process{writer('a'), writer('b'), func(x plan.Executor) error { return e.deleteTo(x, annals.MaxSeqNr) }}
			},
			func(e *entity, x plan.Executor) error {
				if last, err := e.offer.On(x).Journal.LastSeqNr(e.ctx, e.id); err != nil || last != 3 {
					return fmt.Errorf("the last number is %d, %v, want 3", last, err)
				}
				return nil
			})
	})
	for after, want := range map[annals.SeqNr]string{3: "[4b]", 0: "[1b]"} {
		t.Run(fmt.Sprintf("after %d beside a forgetting", after), func(t *testing.T) {
			everyOrder(t, plantest.Orders{},
				func(e *entity, x plan.Executor) error {
					return errors.Join(e.write(x, 1, 1, 1), e.save(x, 2, 1, true), e.save(x, 3, 1, false), e.deleteTo(x, 3), e.prune(x, 3))
				},
				func(e *entity) []process {
					return []process{
						func(x plan.Executor) error {
							done, err := e.offer.On(x).Forget(e.ctx, annals.Forgetting{ID: e.id})
							if errors.Is(err, annals.ErrConflict) || done {
								return nil
							}
							return fmt.Errorf("forget: %v, %w", done, err)
						},
						func(x plan.Executor) error {
							err := e.append(x, after, 1, 'b')
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
					for ev, err := range e.offer.On(x).Journal.Replay(e.ctx, e.id, 1, annals.MaxSeqNr) {
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
