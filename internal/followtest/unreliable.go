package followtest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/projection"
)

// unreliable is the store of the read model of one runner. Some of its requests fail, and the answers of others get lost.
// When it is dead, all fail.
type unreliable[T any] struct {
	faulty.TxStore[T]
	source annals.Store // of the events, which is as unreliable
	lies   late.Lies
	random *random.Source
	oneIn  int // how many requests there are for each that fails; 0 = none fails
	dead   atomic.Bool
	denies atomic.Bool                                 // all requests are ErrInvalid, as those of a server that misses a table or a right
	stops  atomic.Bool                                 // the runner is to be stopped before its next transaction or Save
	stop   faulty.Gate                                 // is shut while the runner is stopped
	around atomic.Pointer[func(tx func() error) error] // makes the next transaction
	ended  chan error                                  // of beforeTx
	hangs  chan struct{}                               // the handler of the runner returns when it is closed; nil: at once
}

func newUnreliable[T any](model projection.TxStore[T], events annals.Store, l late.Lies, r *random.Source, oneIn int) *unreliable[T] {
	s := &unreliable[T]{lies: l, random: r, oneIn: oneIn}
	s.TxStore = faulty.NewTx(model, s.ofModel)
	s.source = late.Liar{Able: faulty.Able{Store: &faulty.Store{Store: events, Around: s.ofEvents}}, Lies: l}
	return s
}

// fails decides at random whether something fails.
func (s *unreliable[T]) fails() bool { return s.random.OneIn(s.oneIn) }

// beforeTx has fn called before the next transaction of the runner. awaitTx waits for the end of that transaction.
func (s *unreliable[T]) beforeTx(fn func() error) {
	s.ended = make(chan error, 1)
	around := func(tx func() error) error {
		err := fn()
		defer func() { s.ended <- err }()
		return tx()
	}
	s.around.Store(&around)
}

// awaitTx returns the error of beforeTx's fn.
func (s *unreliable[T]) awaitTx(ctx context.Context) error {
	select {
	case err := <-s.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopped stops the runner, if that is to be, for twice its lease. Other requests of the runner wait, too.
func (s *unreliable[T]) stopped() {
	if s.stops.CompareAndSwap(true, false) {
		s.stop.Shut()
		<-time.After(2 * lease)
		s.stop.Open()
	}
}

// fault is the error of the request c if all fail.
func (s *unreliable[T]) fault(c *faulty.Call) error {
	switch {
	case s.denies.Load():
		return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrInvalid, Err: errors.New("denied on purpose")}
	case s.dead.Load():
		return faulty.Failed(c)
	}
	return nil
}

// request makes a request, which may fail. If it writes, its answer may get lost.
func (s *unreliable[T]) request(c *faulty.Call, run func() error) error {
	s.stop.Pass(context.Background())
	if err := s.fault(c); err != nil {
		return err
	}
	if s.fails() {
		return faulty.Failed(c)
	}
	if err := run(); err != nil || !c.Writes || !s.fails() && !s.dead.Load() {
		return err
	}
	return faulty.Lost(c)
}

// ofModel is around the calls of the read model.
func (s *unreliable[T]) ofModel(ctx context.Context, c *faulty.Call, run func() error) error {
	lying := func() error { return s.lies.Around(ctx, c, run) }
	if c.InTx {
		return lying()
	}
	if c.Op == "transaction" || c.Op == "save offsets" {
		s.stopped()
	}
	request := func() error { return s.request(c, lying) }
	if c.Op == "transaction" {
		if around := s.around.Swap(nil); around != nil {
			return (*around)(request)
		}
	}
	return request()
}

// ofEvents is around the calls of the store of the events. A sequence may fail at its beginning or in the middle.
func (s *unreliable[T]) ofEvents(ctx context.Context, c *faulty.Call, run func() error) error {
	if c.Result != nil {
		return s.lies.Around(ctx, c, func() error { return s.request(c, run) })
	}
	fails, at := s.fails(), s.random.IntN(50)
	broken := func(here bool) error {
		if err := s.fault(c); err != nil || !fails || !here {
			return err
		}
		return faulty.Failed(c)
	}
	c.Each = func(any) error { at--; return broken(at == -1) }
	if err := s.lies.Around(ctx, c, run); err != nil {
		return err
	}
	return broken(at >= 0)
}
