package projection_test

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
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

// breaking is s with breaks, also in its transactions.
func breaking[T any](s TxStore[T], b *breaks) faulty.TxStore[T] {
	return faulty.NewTx(s, func(_ context.Context, _ *faulty.Call, run func() error) error { return b.call(run) })
}

// kill has all calls fail until revive.
func (b *breaks) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = true
}
