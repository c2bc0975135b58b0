package entity_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
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

// eachKind runs test for both strategies; start begins a runtime of the strategy.
func eachKind(t *testing.T, test func(t *testing.T, start func(s annals.Store, o entity.Options) *entity.Runtime[int, int, int])) {
	t.Parallel()
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(s annals.Store, o entity.Options) *entity.Runtime[int, int, int] {
				o.Logger = quiet
				rt, err := open(s, o)
				if err != nil {
					t.Fatal(err)
				}
				return rt
			})
		})
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// hooked is a memstore whose calls can be watched, delayed and failed. A nil hook lets the call through.
type hooked struct {
	annals.Store
	caps annals.Capabilities

	write    func(ctx context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error)
	save     func(ctx context.Context, s annals.Snapshot, next func() error) error
	read     func(ctx context.Context, id annals.PersistenceID) error // before a recovery
	deleteTo func(id annals.PersistenceID, to annals.SeqNr)
	event    func(e annals.Event) (annals.Event, error)

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
	return &hooked{Store: m, caps: m.Capabilities()}
}

func (s *hooked) Capabilities() annals.Capabilities { return s.caps }
func (s *hooked) Journal() annals.Journal           { return hookedJournal{s.Store.Journal(), s} }
func (s *hooked) States() annals.StateStore         { return hookedStates{s.Store.States(), s} }
func (s *hooked) Snapshots() annals.SnapshotStore   { return hookedSnapshots{s.Store.Snapshots(), s} }

func (s *hooked) call(ctx context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
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

type hookedJournal struct {
	annals.Journal
	s *hooked
}

func (j hookedJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := valid.Commit(c, j.s.caps.Limits); err != nil {
		j.s.refused.Add(1)
		return annals.Receipt{}, err
	}
	return j.s.call(ctx, written{commit: c}, func() (annals.Receipt, error) { return j.Journal.Append(ctx, c) })
}

func (j hookedJournal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	j.s.looks.Add(1)
	return j.Journal.LastSeqNr(ctx, id)
}

func (j hookedJournal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if j.s.deleteTo != nil {
		j.s.deleteTo(id, to)
	}
	return j.Journal.DeleteTo(ctx, id, to)
}

func (j hookedJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range j.Journal.Replay(ctx, id, from, to) {
			if j.s.event != nil && err == nil {
				e, err = j.s.event(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

type hookedStates struct {
	annals.StateStore
	s *hooked
}

func (h hookedStates) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	h.s.looks.Add(1)
	if h.s.read != nil {
		if err := h.s.read(ctx, id); err != nil {
			return annals.State{}, false, err
		}
	}
	return h.StateStore.Get(ctx, id)
}

func (h hookedStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return h.s.call(ctx, written{state: w}, func() (annals.Receipt, error) { return h.StateStore.Put(ctx, w) })
}

func (h hookedStates) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return h.s.call(ctx, written{state: w}, func() (annals.Receipt, error) { return h.StateStore.Delete(ctx, w) })
}

type hookedSnapshots struct {
	annals.SnapshotStore
	s *hooked
}

func (h hookedSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	if h.s.read != nil {
		if err := h.s.read(ctx, id); err != nil {
			return annals.Snapshot{}, false, err
		}
	}
	return h.SnapshotStore.Latest(ctx, id, c)
}

func (h hookedSnapshots) Save(ctx context.Context, s annals.Snapshot) error {
	if h.s.save == nil {
		return h.SnapshotStore.Save(ctx, s)
	}
	return h.s.save(ctx, s, func() error { return h.SnapshotStore.Save(ctx, s) })
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

// answered demands what has arrived on ch.
func answered(t *testing.T, ch <-chan answer, reply int, kind error) {
	t.Helper()
	select {
	case a := <-ch:
		if a.reply != reply || !errors.Is(a.err, kind) {
			t.Errorf("answered %d, %v, want %d, %v", a.reply, a.err, reply, kind)
		}
	default:
		t.Errorf("not answered, want %d, %v", reply, kind)
	}
}

// unanswered demands that nothing has arrived on ch.
func unanswered(t *testing.T, ch <-chan answer) {
	t.Helper()
	select {
	case a := <-ch:
		t.Errorf("answered %d, %v, too early", a.reply, a.err)
	default:
	}
}
