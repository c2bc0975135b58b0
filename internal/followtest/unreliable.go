package followtest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/projection"
)

// lies are what a store does wrong, so that a runner on it does not do one part of its work.
type lies struct {
	inOrder  bool // it claims that events become visible in order, and its watermark is now
	now      bool // its watermark is now
	noHoles  bool // its journal finds nothing
	newest   bool // the position is at the newest event that was handled
	once     bool // Save drops Once
	epoch    bool // Save drops Epoch
	beyond   bool // the position has no events beyond Through
	revision bool // a transaction writes states at any revision
}

// unreliable is the store of the read model of one runner, and of its events. Some of its requests fail, and the answers of others get lost.
// When it is dead, all fail.
type unreliable[T any] struct {
	projection.TxStore[T]
	events annals.Store
	lies   lies
	oneIn  int // how many requests there are for each that fails; 0 = none fails
	dead   atomic.Bool
	denies atomic.Bool                                 // all requests are ErrInvalid, as those of a server that misses a table or a right
	stops  atomic.Bool                                 // the runner is to be stopped before its next transaction or Save
	stop   sync.RWMutex                                // is locked while the runner is stopped
	around atomic.Pointer[func(tx func() error) error] // makes the next transaction
	ended  chan error                                  // of beforeTx
	hangs  chan struct{}                               // the handler of the runner returns when it is closed; nil: at once
}

// fails decides at random whether something fails.
func (s *unreliable[T]) fails() bool { return s.oneIn > 0 && rand.IntN(s.oneIn) == 0 }

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
		s.stop.Lock()
		<-time.After(2 * lease)
		s.stop.Unlock()
	}
}

var (
	errFailed = &annals.Error{Op: "call", Kind: annals.ErrUnavailable, Err: errors.New("failed on purpose")}
	errDenied = &annals.Error{Op: "call", Kind: annals.ErrInvalid, Err: errors.New("denied on purpose")}
)

// fault is the error of all requests; nil when there is none.
func (s *unreliable[T]) fault() error {
	switch {
	case s.denies.Load():
		return errDenied
	case s.dead.Load():
		return errFailed
	}
	return nil
}

// read runs a call that only reads.
func (s *unreliable[T]) read(run func() error) error {
	s.stop.RLock()
	s.stop.RUnlock() //nolint:staticcheck // it only waits
	if err := s.fault(); err != nil {
		return err
	}
	if s.fails() {
		return errFailed
	}
	return run()
}

// write runs a call that writes.
func (s *unreliable[T]) write(run func() error) error {
	return s.read(func() error {
		if err := run(); err != nil || !s.fails() && !s.dead.Load() {
			return err
		}
		return &annals.Error{Op: "call", Kind: annals.ErrUnknown, Err: errors.New("the answer was lost on purpose")}
	})
}

// source is the store of the events, and the Watcher that it may be.
func (s *unreliable[T]) source() annals.Store {
	of := source[T]{s.events, s}
	if w, err := ability.Of[ability.Watcher](s.events); err == nil {
		return struct {
			annals.Store
			ability.Watcher
		}{of, w}
	}
	return of
}

// source is the store of the events.
type source[T any] struct {
	annals.Store
	s *unreliable[T]
}

func (x source[T]) Capabilities() annals.Capabilities {
	c := x.Store.Capabilities()
	if x.s.lies.inOrder {
		c.Lateness = 0
	}
	return c
}

func (x source[T]) Journal() annals.Journal { return journal[T]{x.Store.Journal(), x.s} }
func (x source[T]) Query() annals.Query     { return queries[T]{x.Store.Query(), x.s} }

func (s *unreliable[T]) InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error {
	s.stopped()
	tx := func() error {
		return s.write(func() error {
			return s.TxStore.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error { return fn(ctx, tx, lyingTx{in, s.lies}) })
		})
	}
	if around := s.around.Swap(nil); around != nil {
		return (*around)(tx)
	}
	return tx()
}

// lyingTx is a store in a transaction.
type lyingTx struct {
	annals.Store
	lies lies
}

func (s lyingTx) Offsets() annals.OffsetStore { return lyingOffsets{s.Store.Offsets(), s.lies} }
func (s lyingTx) States() annals.StateStore   { return lyingStates{s.Store.States(), s.lies} }

type lyingStates struct {
	annals.StateStore
	lies lies
}

func (x lyingStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	if x.lies.revision {
		stored, _, err := x.Get(ctx, w.ID)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.After = stored.Revision
	}
	return x.StateStore.Put(ctx, w)
}

type lyingOffsets struct {
	annals.OffsetStore
	lies lies
}

func (o lyingOffsets) Load(ctx context.Context, name string, r annals.SliceRange) ([]annals.Position, error) {
	positions, err := o.OffsetStore.Load(ctx, name, r)
	for i := range positions {
		p := &positions[i]
		if o.lies.newest {
			for _, offset := range p.Offsets {
				if offset.Compare(p.Through) > 0 {
					p.Through = offset
				}
			}
		}
		if o.lies.newest || o.lies.beyond {
			p.Offsets = nil
		}
	}
	return positions, err
}

func (o lyingOffsets) Save(ctx context.Context, p annals.Progress) error {
	if o.lies.once {
		p.Once = false
	}
	if o.lies.epoch {
		p.Epoch = 0
	}
	return o.OffsetStore.Save(ctx, p)
}

func (s *unreliable[T]) Offsets() annals.OffsetStore {
	return offsets[T]{lyingOffsets{s.TxStore.Offsets(), s.lies}, s}
}

type offsets[T any] struct {
	annals.OffsetStore
	s *unreliable[T]
}

func (o offsets[T]) Load(ctx context.Context, name string, r annals.SliceRange) (positions []annals.Position, err error) {
	err = o.s.read(func() (err error) { positions, err = o.OffsetStore.Load(ctx, name, r); return err })
	return positions, err
}

func (o offsets[T]) Save(ctx context.Context, p annals.Progress) error {
	o.s.stopped()
	return o.s.write(func() error { return o.OffsetStore.Save(ctx, p) })
}

func (s *unreliable[T]) States() annals.StateStore { return states[T]{s.TxStore.States(), s} }

type states[T any] struct {
	annals.StateStore
	s *unreliable[T]
}

func (x states[T]) Get(ctx context.Context, id annals.PersistenceID) (state annals.State, ok bool, err error) {
	err = x.s.read(func() (err error) { state, ok, err = x.StateStore.Get(ctx, id); return err })
	return state, ok, err
}

func (x states[T]) Put(ctx context.Context, w annals.StateWrite) (r annals.Receipt, err error) {
	err = x.s.write(func() (err error) { r, err = x.StateStore.Put(ctx, w); return err })
	return r, err
}

type journal[T any] struct {
	annals.Journal
	s *unreliable[T]
}

func (j journal[T]) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if j.s.lies.noHoles {
		return func(func(annals.Event, error) bool) {}
	}
	return breaking(j.s, j.Journal.Replay(ctx, id, from, to))
}

type queries[T any] struct {
	annals.Query
	s *unreliable[T]
}

func (q queries[T]) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return breaking(q.s, q.Query.Events(ctx, f))
}

func (q queries[T]) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return breaking(q.s, q.Query.States(ctx, f))
}

func (q queries[T]) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	err = q.s.read(func() (err error) { newest, err = q.Query.Newest(ctx, f); return err })
	return newest, err
}

func (q queries[T]) Watermark(ctx context.Context) (at time.Time, err error) {
	err = q.s.read(func() (err error) { at, err = q.Query.Watermark(ctx); return err })
	if err == nil && (q.s.lies.now || q.s.lies.inOrder) {
		at = time.Now().UTC()
	}
	return at, err
}

// breaking is seq, which may fail at its beginning or in the middle.
func breaking[T, V any](s *unreliable[T], seq iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var none V
		fails := s.fails()
		at := rand.IntN(50)
		for v, err := range seq {
			if broken := s.fault(); broken != nil || fails && at == 0 {
				yield(none, cmp.Or(broken, error(errFailed)))
				return
			}
			at--
			if !yield(v, err) {
				return
			}
		}
		if broken := s.fault(); broken != nil || fails && at >= 0 {
			yield(none, cmp.Or(broken, error(errFailed)))
		}
	}
}
