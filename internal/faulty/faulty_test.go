package faulty_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/storetest"
)

// calls are the calls of a store, as its Observer sees them and as Around does.
type calls struct {
	mu               sync.Mutex
	observed, around map[annals.Call]bool
}

func (x *calls) note(calls map[annals.Call]bool, op string, id annals.PersistenceID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	calls[annals.Call{Op: op, ID: id}] = true
}

func (x *calls) Start(ctx context.Context, c annals.Call) context.Context {
	x.note(x.observed, c.Op, c.ID)
	return ctx
}

func (*calls) End(context.Context, annals.Call, annals.Result) {}

// A Store without faults passes the suite, and Around gets each call with the operation and the entity that an Observer gets.
func TestWithoutFaults(t *testing.T) {
	t.Parallel()
	c := storetest.Config{Short: true, Open: func(tb testing.TB) annals.Store {
		x := &calls{observed: map[annals.Call]bool{}, around: map[annals.Call]bool{}}
		tb.Cleanup(func() {
			if !maps.Equal(x.observed, x.around) {
				tb.Errorf("an Observer has seen %v, Around %v", x.observed, x.around)
			}
		})
		mem, err := memstore.Open(memstore.Options{Observer: x})
		if err != nil {
			tb.Fatal(err)
		}
		return faulty.NewTx(mem, func(_ context.Context, c *faulty.Call, run func() error) error {
			x.note(x.around, c.Op, c.ID)
			return run()
		})
	}}
	storetest.Run(t, c)
}

// Around fails a call before and after it is made, and within a sequence, and changes what a call gets and returns.
func TestFaults(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var around faulty.Around
	mem := memstore.New()
	s := &faulty.Store{Store: mem, Around: func(ctx context.Context, c *faulty.Call, run func() error) error { return around(ctx, c, run) }}
	commit := annals.Commit{ID: "T|1", Events: slices.Repeat([]annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}}}, 3)}
	want := func(what string, last annals.SeqNr, err, kind error) {
		t.Helper()
		if got, wrong := mem.Journal().LastSeqNr(ctx, "T|1"); got != last || wrong != nil || !errors.Is(err, kind) {
			t.Errorf("%s: %v, and the last number is %d, %v, want %v and %d", what, err, got, wrong, kind, last)
		}
	}
	around = func(_ context.Context, c *faulty.Call, _ func() error) error { return faulty.Failed(c) }
	_, err := s.Journal().Append(ctx, commit)
	want("failed", 0, err, annals.ErrUnavailable)
	around = func(_ context.Context, c *faulty.Call, run func() error) error {
		return errors.Join(run(), faulty.Lost(c))
	}
	r, err := s.Journal().Append(ctx, commit)
	want("lost", 3, err, annals.ErrUnknown)
	if r != (annals.Receipt{}) {
		t.Errorf("the answer that was lost is %v", r)
	}
	around = func(_ context.Context, c *faulty.Call, run func() error) error {
		c.Arg.(*annals.Commit).After = 3
		defer func() { c.Result.(*annals.Receipt).SeqNr++ }()
		return run()
	}
	r, err = s.Journal().Append(ctx, commit)
	want("changed", 6, err, nil)
	if r.SeqNr != 7 {
		t.Errorf("the changed number is %d", r.SeqNr)
	}

	around = func(_ context.Context, c *faulty.Call, run func() error) error {
		c.Each = func(value any) error {
			e := value.(*annals.Event)
			if e.SeqNr == 3 {
				return faulty.Failed(c)
			}
			e.SeqNr += 10
			return nil
		}
		return errors.Join(run(), faulty.Lost(c))
	}
	for range 2 { // the sequence can be used again
		var numbers []annals.SeqNr
		for e, err := range s.Journal().Replay(ctx, "T|1", 1, annals.MaxSeqNr) {
			if numbers = append(numbers, e.SeqNr); (len(numbers) == 3) != (err != nil) {
				t.Errorf("value %d is %v, %v", len(numbers), e, err)
			}
		}
		if len(numbers) != 3 || numbers[0] != 11 || numbers[2] != 0 {
			t.Errorf("the numbers are %v", numbers)
		}
	}
	for _, err := range s.Journal().Replay(ctx, "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

func TestAbilities(t *testing.T) {
	t.Parallel()
	s := &faulty.Store{Store: memstore.New()}
	if _, err := ability.Of[ability.Skipper](s); err == nil {
		t.Error("a Store is a Skipper")
	}
	if _, err := ability.Of[ability.Skipper](faulty.Able{Store: s}); err != nil {
		t.Error(err)
	}
}
