// Package tenants opens a store for each tenant of a program when it is used, and closes it when it is not used any more: a file of SQLite, a
// schema of PostgreSQL, or tables of DynamoDB for each.
package tenants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/quote"
)

// Options configure Stores. The zero Options suit most.
type Options struct {
	Max    int           // how many stores stay open; more are open while they are in use; 0: 100
	Idle   time.Duration // after how long without a use a store is closed; 0: 5 minutes
	Logger *slog.Logger  // for stores that cannot be closed; nil: slog.Default()
}

// Stores are the stores of the tenants. They may be used from many goroutines at once.
type Stores struct {
	open func(ctx context.Context, tenant string) (annals.Store, error)
	o    Options
	all  sync.WaitGroup // counts the tenants

	mu      sync.Mutex
	tenants map[string]*tenant
	closed  bool
	faults  []error // of stores that were closed after Close had begun
}

// tenant has one store. It is removed from Stores when the store was not opened, or has been closed.
type tenant struct {
	name   string
	users  int                // calls of Use that wait for the store or use it
	ready  chan struct{}      // closed when store or err is set
	cancel context.CancelFunc // ends the call that opens the store
	store  annals.Store
	err    error
	closed chan struct{} // nil while the tenant can be used; closed when it has been removed
	used   time.Time     // when the last use ended
	idle   *time.Timer   // closes the store then
}

// New returns Stores that open opens. A tenant has one store at a time: open is called again for it when that one has been closed. open is called
// concurrently for different tenants. Its context ends when it returns, and when all calls that wait for the store have ended. ErrInvalid when open
// is nil or an option is negative.
func New(open func(ctx context.Context, tenant string) (annals.Store, error), o Options) (*Stores, error) {
	if open == nil || o.Max < 0 || o.Idle < 0 {
		err := fmt.Errorf("open is nil (%t), or Options.Max (%d) or Idle (%v) is negative", open == nil, o.Max, o.Idle)
		return nil, &annals.Error{Op: "make stores of tenants", Kind: annals.ErrInvalid, Err: err}
	}
	o.Max, o.Idle, o.Logger = cmp.Or(o.Max, 100), cmp.Or(o.Idle, 5*time.Minute), panics.Logger(o.Logger)
	return &Stores{open: open, o: o, tenants: map[string]*tenant{}}, nil
}

// Use calls fn with the store of a tenant, which is not closed before fn returns; fn must not keep it, or what was made with it. Use waits while the
// store is being opened, and returns the error of that to all who wait; the next call tries again. Otherwise it returns the error of fn, ErrUnavailable when
// ctx ends before the store is open, or ErrClosed after Close. fn may call Use, also for the same tenant.
func (s *Stores) Use(ctx context.Context, name string, fn func(ctx context.Context, store annals.Store) error) error {
	t, err := s.take(ctx, name)
	if err != nil {
		return err
	}
	defer s.release(t)
	select {
	case <-t.ready:
	case <-ctx.Done():
		return fault(name, annals.ErrUnavailable, ctx.Err())
	}
	if t.err != nil {
		return t.err
	}
	return fn(ctx, t.store)
}

// take returns the tenant of that name for one more user.
func (s *Stores) take(ctx context.Context, name string) (*tenant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.tenants[name] != nil && s.tenants[name].closed != nil {
		gone := s.tenants[name].closed
		s.mu.Unlock()
		select {
		case <-gone:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, fault(name, annals.ErrUnavailable, ctx.Err())
		}
	}
	if s.closed {
		return nil, fault(name, annals.ErrClosed, nil)
	}
	t := s.tenants[name]
	if t == nil {
		opening, cancel := context.WithCancel(context.WithoutCancel(ctx))
		t = &tenant{name: name, ready: make(chan struct{}), cancel: cancel}
		s.tenants[name] = t
		s.all.Add(1)
		go s.begin(opening, t)
	}
	if t.idle != nil {
		t.idle.Stop()
	}
	t.users++
	return t, nil
}

func fault(name string, kind, err error) error {
	return &annals.Error{Op: "use the store of tenant " + quote.Text(name), Kind: kind, Err: err}
}

// begin opens the store of t.
func (s *Stores) begin(ctx context.Context, t *tenant) {
	defer t.cancel()
	op := "open the store of tenant " + quote.Text(t.name)
	err := panics.Contain(op, "", func() (err error) { t.store, err = s.open(ctx, t.name); return err })
	if err == nil && t.store == nil {
		err = &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: errors.New("there is none, and no error")}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.err = err
	close(t.ready)
	switch {
	case err != nil:
		s.remove(t)
	case t.closed != nil:
		go s.end(t)
	}
}

// release ends a use of t.
func (s *Stores) release(t *tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users--; t.users > 0 || t.err != nil {
		return
	}
	select {
	case <-t.ready:
	default: // the last call that waited for the store has ended
		t.closed = make(chan struct{})
		t.cancel()
		return
	}
	t.used = time.Now()
	t.idle = time.AfterFunc(s.o.Idle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if time.Since(t.used) >= s.o.Idle {
			s.close(t)
		}
	})
	open, oldest := 0, t
	for _, other := range s.tenants {
		if other.closed == nil {
			open++
		}
		if other.unused() && other.used.Before(oldest.used) {
			oldest = other
		}
	}
	switch {
	case s.closed:
		s.close(t)
	case open > s.o.Max:
		s.close(oldest)
	}
}

// unused reports whether the store of t is open and not in use.
func (t *tenant) unused() bool { return t.users == 0 && t.closed == nil && t.idle != nil }

// close begins to close the store of t unless it is in use.
func (s *Stores) close(t *tenant) {
	if t.unused() {
		t.idle.Stop()
		t.closed = make(chan struct{})
		go s.end(t)
	}
}

// end closes the store of t.
func (s *Stores) end(t *tenant) {
	err := panics.Contain("close the store of tenant "+quote.Text(t.name), "", t.store.Close)
	if err != nil {
		s.o.Logger.Warn("annals: the store of a tenant was not closed", "tenant", t.name, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.faults = append(s.faults, err)
	}
	s.remove(t)
}

// remove removes t, which has no store.
func (s *Stores) remove(t *tenant) {
	delete(s.tenants, t.name)
	if t.closed != nil {
		close(t.closed)
	}
	s.all.Done()
}

// Close closes the stores, each when it is not in use any more, and waits for that: so a function of Use must not call it. It
// returns the errors of the stores. It may be called again.
func (s *Stores) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.tenants {
		s.close(t)
	}
	s.mu.Unlock()
	s.all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.faults...)
}
