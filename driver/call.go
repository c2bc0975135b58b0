package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/internal/warning"
)

// call is one call under way. It is made by start, and ends with end.
type call struct {
	annals.Call
	s     *store
	ctx   context.Context // as the Observer has it
	in    context.Context // as the Driver gets it
	write bool
	held  bool                  // the backend is in use until end
	done  func(err error) error // of Transaction.Use; nil outside
	spent *spent
	own   error              // of the caller's function: the call returns it as it is
	holes *[]*ability.Damage // that Check collects; nil for other calls
}

// spent is what a call has read, written and cost. It is in the context of a call that is observed.
type spent struct {
	began  time.Time
	away   time.Duration // in the caller's code
	mu     sync.Mutex
	result annals.Result
}

type spentKey struct{}

// Count adds to the call of ctx what it has cost: Requests, Retries, Throttles, ReadUnits, WriteUnits and Unused of r. The last Warning counts. Other
// fields are left out: the Store counts events and bytes. Without an Observer only the Warning counts, for followers.
func Count(ctx context.Context, r annals.Result) {
	if r.Warning != nil {
		warning.Tell(ctx, r.Warning)
	}
	sp, _ := ctx.Value(spentKey{}).(*spent)
	if sp == nil {
		return
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.result.Requests += r.Requests
	sp.result.Retries += r.Retries
	sp.result.Throttles += r.Throttles
	sp.result.ReadUnits += r.ReadUnits
	sp.result.WriteUnits += r.WriteUnits
	sp.result.Unused += r.Unused
	if r.Warning != nil {
		sp.result.Warning = r.Warning
	}
}

// claimed is fault, or ErrUnsupported for what the store does not claim: its Driver need not have it.
func claimed(claims bool, fault error) error {
	if !claims {
		return unclaimed("the store does not claim it; docs/claims.md says which stores and settings have it")
	}
	return fault
}

// start tells the Observer of a call. *err is errLost until the call returns.
func (s *store) start(ctx context.Context, c annals.Call, err *error) call {
	*err = errLost
	k := call{Call: c, s: s, ctx: ctx}
	k.Store = s.name
	if s.observer != nil {
		k.spent = &spent{began: time.Now()}
		k.ctx = s.observer.Start(context.WithValue(ctx, spentKey{}, k.spent), k.Call)
	} else if ctx.Value(spentKey{}) != nil { // of a call of another store, which this one does not count for
		k.ctx = context.WithValue(ctx, spentKey{}, (*spent)(nil))
	}
	k.in = k.ctx
	return k
}

// transferred counts what was read or written.
func (c *call) transferred(events, bytes int) {
	if c.spent != nil {
		c.spent.mu.Lock()
		defer c.spent.mu.Unlock()
		c.spent.result.Events += events
		c.spent.result.Bytes += bytes
	}
}

// caller runs the caller's code, whose time is not the call's.
func (c *call) caller(fn func()) {
	if c.spent == nil {
		fn()
		return
	}
	began := time.Now()
	defer func() { c.spent.away += time.Since(began) }()
	fn()
}

// use begins a use of the backend, which lasts until end. It refuses the call when fault is not nil.
func (c *call) use(fault error, write bool) (err error) {
	if fault != nil {
		return fault
	}
	c.write = write
	c.in, c.done, err = c.s.begin(c.ctx, write)
	c.held = err == nil
	return err
}

// end ends the use of the backend, makes *err an error of the contracts and tells the Observer.
func (c *call) end(err *error) {
	if c.held {
		defer c.s.leave(c.write) // after the Observer was told, so that Close waits for that
		if c.done != nil {
			*err = c.done(*err)
		}
	}
	switch {
	case c.own != nil:
		*err = c.own
	case *err != nil:
		*err = c.s.named(c.Call, *err)
	}
	if sp := c.spent; sp != nil {
		sp.mu.Lock()
		r := sp.result
		sp.mu.Unlock()
		r.Duration, r.Err = time.Since(sp.began)-sp.away, *err
		c.s.observer.End(c.ctx, c.Call, r)
	}
}

var (
	errEnded   = &annals.Error{Kind: annals.ErrClosed, Err: errors.New("the transaction has ended")}
	errOutside = &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("the outer store was written to with the context of a transaction: use the store that InTx handed over")}
	errClosed  = &annals.Error{Kind: annals.ErrClosed}
	errLost    = &annals.Error{Kind: annals.ErrPanic, Err: errors.New("the function did not return")}
)

// ended is the error of a call whose context or transaction has ended; nil when neither has.
func (s *store) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
	case s.tx != nil && s.tx.ended.Load():
		return errEnded
	}
	return nil
}

// begin opens a use of the backend, until leave. end, if there is one, is called before that.
func (s *store) begin(ctx context.Context, write bool) (within context.Context, end func(err error) error, err error) {
	if err := s.ended(ctx); err != nil {
		return ctx, nil, err
	}
	switch {
	case s.tx != nil && s.tx.use != nil:
		return s.tx.use(ctx)
	case s.tx != nil:
	case write && s.readOnly:
		return ctx, nil, valid.ErrReadOnly
	case write && s.Within(ctx):
		return ctx, nil, errOutside
	case !s.gate.enter(write):
		return ctx, nil, errClosed
	}
	return ctx, nil, nil
}

func (s *store) leave(write bool) {
	if s.tx == nil {
		s.gate.leave(write)
	}
}

// Read runs fn as the operation c of s, one that reads the backend within Fetch, and may run the caller's code in between. It is for methods of a
// store that are not in the contracts.
func Read(ctx context.Context, s *Store, c annals.Call, fn func(ctx context.Context) error) (err error) {
	k := s.front.start(ctx, c, &err)
	defer k.end(&err)
	if err := k.streams(nil); err != nil {
		return err
	}
	return fn(k.in)
}

// Write runs fn as the operation c of s, one that writes. It is for methods of a store that are not in the contracts, such as InTx, whose
// Op is "transaction".
func Write(ctx context.Context, s *Store, c annals.Call, fn func(ctx context.Context) error) error {
	return do(ctx, s.front, c, true, nil, fn)
}

// ask runs fn as the operation c of s. It refuses the call when fault is not nil.
func ask[T any](ctx context.Context, s *store, c annals.Call, write bool, fault error, fn func(ctx context.Context) (T, error)) (v T, err error) {
	k := s.start(ctx, c, &err)
	defer k.end(&err)
	if err := k.use(fault, write); err != nil {
		return v, err
	}
	return fn(k.in)
}

// do is ask for an operation without a result.
func do(ctx context.Context, s *store, c annals.Call, write bool, fault error, fn func(ctx context.Context) error) error {
	_, err := ask(ctx, s, c, write, fault, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}
