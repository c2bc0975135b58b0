package projection_test

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/projection"
)

// mode says what happens at the call that a breaking store breaks.
type mode struct {
	name  string
	after bool // the call is executed and its answer is lost, otherwise it is not executed
	dies  bool // all later calls fail as well: the process has ended
}

var modes = []mode{{"fails", false, false}, {"answer is lost", true, false}, {"dies before", false, true}, {"dies after", true, true}}

// breaks counts the calls of the stores of one process after the other, and breaks one of them.
type breaks struct {
	mode mode
	at   int // which call
	die  func()

	mu    sync.Mutex
	calls int
	dead  bool
}

// tripped reports whether the call that breaks has been reached.
func (b *breaks) tripped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls >= b.at
}

func (b *breaks) revive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = false
}

// call executes run, or not.
func (b *breaks) call(run func() error) error {
	b.mu.Lock()
	if b.dead {
		b.mu.Unlock()
		return &annals.Error{Op: "call", Kind: annals.ErrUnavailable}
	}
	b.calls++
	now := b.calls == b.at
	b.dead = now && b.mode.dies
	b.mu.Unlock()
	if !now {
		return run()
	}
	if b.mode.dies {
		defer b.die()
	}
	kind := annals.ErrUnavailable
	if b.mode.after {
		if err := run(); err != nil {
			return err
		}
		kind = annals.ErrUnknown
	}
	return &annals.Error{Op: "call", Kind: kind}
}

// breaking is a store with breaks.
type breaking[T any] struct {
	TxStore[T]
	b *breaks
}

func (s breaking[T]) InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error {
	return s.b.call(func() error {
		return s.TxStore.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error { return fn(ctx, tx, breakingTx{in, s.b}) })
	})
}

func (s breaking[T]) States() annals.StateStore   { return breakingTx{s.TxStore, s.b}.States() }
func (s breaking[T]) Offsets() annals.OffsetStore { return breakingTx{s.TxStore, s.b}.Offsets() }
func (s breaking[T]) Journal() annals.Journal     { return breakingTx{s.TxStore, s.b}.Journal() }

// breakingTx is a store with breaks that is in a transaction.
type breakingTx struct {
	annals.Store
	b *breaks
}

func (s breakingTx) States() annals.StateStore   { return breakingStates{s.Store.States(), s.b} }
func (s breakingTx) Offsets() annals.OffsetStore { return breakingOffsets{s.Store.Offsets(), s.b} }
func (s breakingTx) Journal() annals.Journal     { return breakingJournal{s.Store.Journal(), s.b} }

type breakingStates struct {
	annals.StateStore
	b *breaks
}

func (s breakingStates) Get(ctx context.Context, id annals.PersistenceID) (state annals.State, ok bool, err error) {
	err = s.b.call(func() (err error) {
		state, ok, err = s.StateStore.Get(ctx, id)
		return err
	})
	return state, ok, err
}

func (s breakingStates) Put(ctx context.Context, w annals.StateWrite) (r annals.Receipt, err error) {
	err = s.b.call(func() (err error) {
		r, err = s.StateStore.Put(ctx, w)
		return err
	})
	return r, err
}

type breakingOffsets struct {
	annals.OffsetStore
	b *breaks
}

func (s breakingOffsets) Load(ctx context.Context, projection string, r annals.SliceRange) (p []annals.Position, err error) {
	err = s.b.call(func() (err error) {
		p, err = s.OffsetStore.Load(ctx, projection, r)
		return err
	})
	return p, err
}

func (s breakingOffsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) (o []annals.Offset, err error) {
	err = s.b.call(func() (err error) {
		o, err = s.OffsetStore.Handled(ctx, projection, ids...)
		return err
	})
	return o, err
}

func (s breakingOffsets) Save(ctx context.Context, p annals.Progress) error {
	return s.b.call(func() error { return s.OffsetStore.Save(ctx, p) })
}

type breakingJournal struct {
	annals.Journal
	b *breaks
}

// Replay breaks in the middle.
func (s breakingJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		left := errors.New("the loop was left")
		err := s.b.call(func() error {
			for e, err := range s.Journal.Replay(ctx, id, from, to) {
				if err != nil {
					return err
				}
				if !yield(e, nil) {
					return left
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, left) {
			yield(annals.Event{}, err)
		}
	}
}

// kill has all calls fail until revive.
func (b *breaks) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = true
}
