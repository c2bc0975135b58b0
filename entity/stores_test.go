package entity_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

// account is a balance. A command adds its amount; 0 only reads; what would make the balance negative is rejected.
var account = behavior.EventSourced[int, int, int, int]{
	Type: "Account",
	Decide: func(balance, amount int) ([]int, error) {
		switch {
		case amount == 0:
			return nil, nil
		case balance+amount < 0:
			return nil, errPoor
		}
		return []int{amount}, nil
	},
	Evolve: func(balance, amount int) int { return balance + amount },
	Reply:  func(balance, _ int, _ []int) int { return balance },
	Events: codec.JSON[int]("moved"),
	States: codec.JSON[int]("balance"),
}

// accountState is account as a durable state.
var accountState = behavior.DurableState[int, int, int]{
	Type: "Account",
	Decide: func(balance, amount int) (none behavior.Effect[int], err error) {
		switch {
		case amount == 0:
			return none, nil
		case balance+amount < 0:
			return none, errPoor
		}
		return behavior.Save(balance + amount), nil
	},
	Reply:  func(balance, _ int) int { return balance },
	States: codec.JSON[int]("balance"),
}

var errPoor = errors.New("the balance is too low")

// kinds are the two strategies: what holds for one has to hold for the other.
var kinds = map[string]func(store annals.Store, o entity.Options) (*entity.Runtime[int, int, int], error){
	"sourced": func(s annals.Store, o entity.Options) (*entity.Runtime[int, int, int], error) {
		return entity.New(s, account, o)
	},
	"durable": func(s annals.Store, o entity.Options) (*entity.Runtime[int, int, int], error) {
		return entity.NewState(s, accountState, o)
	},
}

// eachKind runs test for both strategies, in bubbles of synctest; start begins a runtime of the strategy.
func eachKind(t *testing.T, test func(t *testing.T, start func(s annals.Store, o entity.Options) *entity.Runtime[int, int, int])) {
	t.Parallel()
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test(t, func(s annals.Store, o entity.Options) *entity.Runtime[int, int, int] {
					o.Logger = quiet
					rt, err := open(s, o)
					if err != nil {
						t.Fatal(err)
					}
					return rt
				})
			})
		})
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// hooked is a memstore whose calls can be watched, delayed and failed. A nil hook lets the call through.
type hooked struct {
	faulty.Store
	mem  *memstore.Store
	caps annals.Capabilities

	write    func(ctx context.Context, w written, next func() error) error
	save     func(ctx context.Context, s annals.Snapshot, next func() error) error
	read     func(ctx context.Context, id annals.PersistenceID) error // before a recovery
	deleteTo func(id annals.PersistenceID, to annals.SeqNr)

	writes, looks, refused atomic.Int64
	mu                     sync.Mutex // guards write once a runtime is at work
}

// written is one call of Append, Put or Delete.
type written struct {
	n      int64 // counts the calls, from 1
	commit annals.Commit
	state  annals.StateWrite
}

func newHooked() *hooked {
	m := memstore.New()
	s := &hooked{mem: m, caps: m.Capabilities()}
	s.Store = faulty.Store{Store: m, Around: s.around}
	return s
}

func (s *hooked) Capabilities() annals.Capabilities { return s.caps }

func (s *hooked) around(ctx context.Context, c *faulty.Call, run func() error) error {
	switch arg := c.Arg.(type) {
	case *annals.Commit:
		if err := valid.Commit(*arg, s.caps.Limits); err != nil {
			s.refused.Add(1)
			return err
		}
		return s.call(ctx, written{commit: *arg}, run)
	case *annals.StateWrite:
		return s.call(ctx, written{state: *arg}, run)
	case *annals.Snapshot:
		if s.save != nil {
			return s.save(ctx, *arg, run)
		}
	}
	switch c.Op {
	case "last number", "get state":
		s.looks.Add(1)
	case "delete events":
		if s.deleteTo != nil {
			s.deleteTo(c.ID, *c.Arg.(*annals.SeqNr))
		}
	}
	if s.read != nil && (c.Op == "get state" || c.Op == "load snapshot") {
		if err := s.read(ctx, c.ID); err != nil {
			return err
		}
	}
	return run()
}

func (s *hooked) call(ctx context.Context, w written, next func() error) error {
	w.n = s.writes.Add(1)
	s.mu.Lock()
	hook := s.write
	s.mu.Unlock()
	if hook == nil {
		return next()
	}
	return hook(ctx, w, next)
}

// heal takes the write hook away.
func (s *hooked) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write = nil
}

// answer is what an Ask returned.
type answer struct {
	reply int
	err   error
}

// asks is a runtime of accounts, whatever the type of their state.
type asks interface {
	Ask(ctx context.Context, id string, amount int) (int, error)
}

// ask sends a command from a goroutine of its own.
func ask(ctx context.Context, rt asks, amount int) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		reply, err := rt.Ask(ctx, "a", amount)
		ch <- answer{reply, err}
	}()
	return ch
}

// mustAsk sends a command that has to succeed.
func mustAsk(t *testing.T, rt asks, amount, want int) {
	t.Helper()
	if got, err := rt.Ask(t.Context(), "a", amount); err != nil || got != want {
		t.Fatalf("ask %d: %d, %v, want %d", amount, got, err, want)
	}
}

// answered demands what has arrived on ch when every other goroutine of the bubble waits.
func answered(t *testing.T, ch <-chan answer, reply int, kind error) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-ch:
		if a.reply != reply || !errors.Is(a.err, kind) {
			t.Errorf("answered %d, %v, want %d, %v", a.reply, a.err, reply, kind)
		}
	default:
		t.Errorf("not answered, want %d, %v", reply, kind)
	}
}

// unanswered demands that nothing has arrived on ch by then.
func unanswered(t *testing.T, ch <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-ch:
		t.Errorf("answered %d, %v, too early", a.reply, a.err)
	default:
	}
}
