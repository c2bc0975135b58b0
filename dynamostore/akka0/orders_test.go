package akka0_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// everyOrder runs processes in every order on an entity with the events 1 … last, for both kinds of deletes;
// with less data for permanent ones only.
func everyOrder(t *testing.T, last annals.SeqNr, o plantest.Orders, processes func(b bench) []func(x plan.Executor) error, end func(b bench) error) {
	t.Helper()
	t.Parallel()
	for _, permanent := range []bool{true, false} {
		if testing.Short() && !permanent {
			continue
		}
		t.Run(fmt.Sprintf("permanent %v", permanent), func(t *testing.T) {
			t.Parallel()
			plantest.EveryOrder(t, o, func(*plantest.Run) plantest.Scenario {
				b := newBench(t, akka0.Layout{SequenceShards: 2, Permanent: permanent})
				b.fill("a", last)
				return plantest.Scenario{Tables: b.x, Processes: processes(b), End: func(plan.Executor) error { return end(b) }}
			})
		})
	}
}

// appends stores a commit of two events after a number.
func (b bench) appends(x plan.Executor, after annals.SeqNr) error {
	_, err := b.offer.On(x).Journal.Append(b.Context(), annals.Commit{ID: "a", After: after, WriteID: plantest.WriteID(byte(after)), Events: []annals.NewEvent{plantest.Event("x"), plantest.Event("y")}})
	return err
}

// replays checks a replay from 1: it has all events from some number on, at least up to last, or is ErrTruncated. deleted is the highest number
// that a delete may have reached.
func (b bench) replays(ctx context.Context, x plan.Executor, last, deleted annals.SeqNr) error {
	var all []annals.SeqNr
	for e, err := range b.offer.On(x).Journal.Replay(ctx, "a", 1, annals.MaxSeqNr) {
		if errors.Is(err, annals.ErrTruncated) {
			return nil
		}
		if err != nil {
			return err
		}
		all = append(all, e.SeqNr)
	}
	for i, n := range all {
		if n != all[0]+annals.SeqNr(i) {
			return fmt.Errorf("replayed %v", all)
		}
	}
	if len(all) == 0 && deleted < last || len(all) > 0 && (all[0] > deleted+1 || all[len(all)-1] < last) {
		return fmt.Errorf("replayed %v, the last number was %d, deleted up to %d", all, last, deleted)
	}
	return nil
}

// A replay beside a delete has no holes.
func TestReplayBesideDeleteInEveryOrder(t *testing.T) {
	everyOrder(t, 5, plantest.Orders{Page: 2, Late: true}, func(b bench) []func(plan.Executor) error {
		return []func(plan.Executor) error{
			func(x plan.Executor) error { return b.replays(b.Context(), x, 5, 4) },
			func(x plan.Executor) error { return b.offer.On(x).Journal.DeleteTo(b.Context(), "a", 4) },
		}
	}, func(b bench) error {
		if got := b.numbers("a", 1, 9); got != "[5]" || b.last("a") != 5 {
			return fmt.Errorf("left are %s, the last number is %d", got, b.last("a"))
		}
		return nil
	})
}

// A replay beside a writer and a delete of everything has each event that was stored before, or is truncated.
func TestReplayBesideAppendAndDeleteInEveryOrder(t *testing.T) {
	everyOrder(t, 3, plantest.Orders{Page: 2}, func(b bench) []func(plan.Executor) error {
		return []func(plan.Executor) error{
			func(x plan.Executor) error { return b.replays(b.Context(), x, 3, 5) },
			func(x plan.Executor) error { return b.appends(x, 3) },
			func(x plan.Executor) error {
				return b.offer.On(x).Journal.DeleteTo(b.Context(), "a", annals.MaxSeqNr)
			},
		}
	}, func(b bench) error {
		if last := b.last("a"); last != 5 {
			return fmt.Errorf("the last number is %d", last)
		}
		return nil
	})
}

// A replay that shows a delete shows the events that were stored before the delete.
func TestReplayBesideAppendThenDeleteInEveryOrder(t *testing.T) {
	everyOrder(t, 2, plantest.Orders{Page: 2}, func(b bench) []func(plan.Executor) error {
		return []func(plan.Executor) error{
			func(x plan.Executor) error {
				var all []annals.SeqNr
				last, err := b.offer.On(x).Recover(b.Context(), "a", nil, func(e annals.Event) error { all = append(all, e.SeqNr); return nil })
				if errors.Is(err, annals.ErrTruncated) {
					return nil
				}
				if err == nil && (len(all) == 0 || all[len(all)-1] != last || all[0] > 1 && last < 4 || all[0] > 3 && last < 6) {
					err = fmt.Errorf("recovered %v up to %d", all, last)
				}
				return err
			},
			func(x plan.Executor) error {
				for n := annals.SeqNr(2); n <= 4; n += 2 { // the delete of 1 and 2 after the append of 3 and 4, and so on
					if err := b.appends(x, n); err != nil {
						return err
					}
					if err := b.offer.On(x).Journal.DeleteTo(b.Context(), "a", n); err != nil {
						return err
					}
				}
				return nil
			},
		}
	}, func(bench) error { return nil })
}

// Of writers with the same After one wins, and older ones lose, also beside a delete of the events before.
func TestAppendsInEveryOrder(t *testing.T) {
	everyOrder(t, 2, plantest.Orders{}, func(b bench) []func(plan.Executor) error {
		won := 0
		write := func(after annals.SeqNr) func(plan.Executor) error {
			return func(x plan.Executor) error {
				switch err := b.appends(x, after); {
				case errors.Is(err, annals.ErrConflict):
					return nil
				case err != nil:
					return err
				case after < 2:
					return fmt.Errorf("an append after %d was stored", after)
				}
				if won++; won > 1 {
					return errors.New("two writers with the same After were stored")
				}
				return nil
			}
		}
		return []func(plan.Executor) error{write(2), write(2), write(1),
			func(x plan.Executor) error { return b.offer.On(x).Journal.DeleteTo(b.Context(), "a", 2) },
		}
	}, func(b bench) error {
		if got := b.numbers("a", 1, 9); got != "[3 4]" || b.last("a") != 4 {
			return fmt.Errorf("left are %s, the last number is %d", got, b.last("a"))
		}
		return nil
	})
}

// A skip is not taken for stored because an append wrote the counter of its number.
func TestSkipBesideAppendInEveryOrder(t *testing.T) {
	everyOrder(t, 0, plantest.Orders{}, func(b bench) []func(plan.Executor) error {
		appended, skipped := false, false
		either := func(stored *bool, err error) error {
			if errors.Is(err, annals.ErrConflict) {
				return nil
			}
			if *stored = err == nil; appended && skipped {
				return errors.New("event 3 is stored, and so is a skip to 3")
			}
			return err
		}
		return []func(plan.Executor) error{
			func(x plan.Executor) error { return either(&skipped, b.offer.On(x).SkipTo(b.Context(), "a", 0, 3)) },
			func(x plan.Executor) error {
				err := b.offer.On(x).SkipTo(b.Context(), "a", 0, 2)
				if err == nil {
					err = b.appends(x, 2)
				}
				return either(&appended, err)
			},
		}
	}, func(bench) error { return nil })
}

// A skip is not taken for stored because a skip to a later number has deleted the event of its number.
func TestSkipBesideSkippedEventInEveryOrder(t *testing.T) {
	everyOrder(t, 0, plantest.Orders{}, func(b bench) []func(plan.Executor) error {
		appended, skipped := false, false
		return []func(plan.Executor) error{
			func(x plan.Executor) error {
				err := b.appends(x, 0)
				if appended = err == nil; appended {
					err = b.offer.On(x).SkipTo(b.Context(), "a", 2, 4)
				}
				if appended && skipped {
					return errors.New("event 2 is stored, and so is a skip to 2")
				}
				return ignoreConflict(err)
			},
			func(x plan.Executor) error {
				err := b.offer.On(x).SkipTo(b.Context(), "a", 0, 2)
				if skipped = err == nil; appended && skipped {
					return errors.New("event 2 is stored, and so is a skip to 2")
				}
				return ignoreConflict(err)
			},
		}
	}, func(bench) error { return nil })
}

func ignoreConflict(err error) error {
	if errors.Is(err, annals.ErrConflict) {
		return nil
	}
	return err
}

// The last number does not go down beside a delete of everything and an append.
func TestLastInEveryOrder(t *testing.T) {
	everyOrder(t, 2, plantest.Orders{}, func(b bench) []func(plan.Executor) error {
		b.remove("journal-SH-a-0") // the counter of event 2
		return []func(plan.Executor) error{
			func(x plan.Executor) error { return b.appends(x, 2) },
			func(x plan.Executor) error { return b.offer.On(x).Journal.DeleteTo(b.Context(), "a", 2) },
			func(x plan.Executor) error {
				first, err := b.offer.On(x).Journal.LastSeqNr(b.Context(), "a")
				if err != nil {
					return err
				}
				second, err := b.offer.On(x).Journal.LastSeqNr(b.Context(), "a")
				if err == nil && (first < 2 || second < first) {
					err = fmt.Errorf("the last number was %d, then %d", first, second)
				}
				return err
			},
		}
	}, func(b bench) error {
		if last := b.last("a"); last != 4 {
			return fmt.Errorf("the last number is %d", last)
		}
		return nil
	})
}

// A confirmation beside deletes makes no item for an event that is not there.
func TestConfirmBesideDeleteInEveryOrder(t *testing.T) {
	everyOrder(t, 2, plantest.Orders{Late: true}, func(b bench) []func(plan.Executor) error {
		return []func(plan.Executor) error{
			func(x plan.Executor) error {
				return akka0.Confirm(b.Context(), plantest.Store(b.with(x)), "a", map[annals.SeqNr][]string{1: {"c"}, 2: {"c"}})
			},
			func(x plan.Executor) error { return b.offer.On(x).Journal.DeleteTo(b.Context(), "a", 1) },
			func(x plan.Executor) error {
				return akka0.Delete(b.Context(), plantest.Store(b.with(x)), "a", b.layout.Permanent, 2)
			},
		}
	}, func(b bench) error {
		for _, it := range b.x.Items(table) {
			if it["deleted"] != nil != (it["payload"] != nil) || it["confirmations"] != nil && it["payload"] == nil {
				return fmt.Errorf("an item without payload: %v", it)
			}
		}
		if got := b.numbers("a", 1, 9); got != "[]" {
			return fmt.Errorf("left are %s", got)
		}
		return nil
	})
}

// with returns the bench with another executor.
func (b bench) with(x plan.Executor) plan.Runner { return onExecutor{b.offer.On(x), x} }

type onExecutor struct {
	plan.Contracts
	x plan.Executor
}

func (o onExecutor) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, o.Contracts, o.x)
}

// A replay of many requests passes over events that were deleted alone, and notices a DeleteTo at any of its events. One look at an event
// is enough for the 100 events that were read together.
func TestLongReplayBesideDelete(t *testing.T) {
	t.Parallel()
	const last = 251
	for _, permanent := range []bool{false, true} {
		filled := newBench(t, akka0.Layout{SequenceShards: 10, Permanent: permanent})
		filled.fill("a", last)
		var alone []annals.SeqNr
		for n := annals.SeqNr(2); n < last; n += 2 {
			alone = append(alone, n)
		}
		filled.must(akka0.Delete(t.Context(), plantest.Store(filled), "a", permanent, alone...))
		for _, at := range []annals.SeqNr{0, 1, 99, 149, 199, 201} {
			for _, to := range []annals.SeqNr{2, 150, 250, annals.MaxSeqNr} {
				b := filled
				b.x = filled.x.Clone()
				b.Contracts = b.offer.On(b.x)
				var all []annals.SeqNr
				var failed error
				for e, err := range b.Journal.Replay(t.Context(), "a", 1, annals.MaxSeqNr) {
					if failed = err; err != nil {
						break
					}
					if all = append(all, e.SeqNr); e.SeqNr == at {
						b.must(b.Journal.DeleteTo(t.Context(), "a", to))
					}
				}
				looks := strings.Count(b.x.Log(), "\nget "+table)
				whole := len(all) == (last+1)/2
				switch {
				case at == 0 && looks > 3:
					t.Errorf("%d looks at events", looks)
				case failed == nil && whole, errors.Is(failed, annals.ErrTruncated) && at > 0:
				default:
					t.Errorf("permanent %v, delete to %d at event %d: %d events, %v", permanent, to, at, len(all), failed)
				}
				if i := slices.IndexFunc(all, func(n annals.SeqNr) bool { return n%2 == 0 }); i >= 0 {
					t.Errorf("event %d was replayed", all[i])
				}
			}
		}
	}
}
