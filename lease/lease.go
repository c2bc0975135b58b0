// Package lease runs a loop of a program in one process at a time, among all processes that use a store: a loop that sends what is in a table,
// removes old files, or fires timers. Projections share their work by themselves and do not need it.
//
// The lease is a durable state in the store, so every store with durable states has leases, and nothing has to be set up.
//
// # What is promised, and what is not
//
// While one process holds the lease, Run of others waits. The context of the function ends before another process can begin: it ends when the
// lease could not be renewed for four fifths of its length, by the clock of this process that measures times and is never set
// (monotonic). No clocks of two processes are compared.
//
// What the function does after its context has ended can happen at the same time as what another process does: when it does not look at its
// context, when a request that it has sent takes effect late, or when the process or its computer was suspended, so that its clock stood still.
// For work that must not be done twice at the same time even then, the function gets a number, the fence. It is higher in each
// process that begins later. Store the fence with what is written, in the same transaction, and refuse a write whose fence is lower
// than the one that is stored.
package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/leases"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/internal/valid"
)

// Options configure Run. The zero Options suit most loops.
type Options struct {
	// Lease is how long the process that holds the lease may show no sign of life before another one begins. After a kill that takes up to twice as
	// long. At least 10 ms; 0: 10 s. The holder writes to the store three times in that time, and each process that waits reads three times. Make it ten
	// times as long as a write to the store may take. The processes that use one name may have different ones.
	Lease  time.Duration
	Logger *slog.Logger // for failures, and leases that were lost; nil: slog.Default()
}

// Run waits until this process has the lease of that name, and then calls fn. It gives up the lease when fn has returned, and returns the error
// of fn. Another process that waits finds the lease free within a third of its Options.Lease.
//
// The context of fn ends with ctx, and when the lease may be lost. In the second case Run waits for fn to return, whose error is not used,
// and then for the lease, and calls fn again. fence is above that of each call before, in any process. When ctx ends, Run waits for fn to
// return, gives up the lease, and returns nil if fn was not called, or has returned nil or an error of its context.
//
// Errors of the store are logged, the 1st, 2nd, 4th, 8th … of many, and tried again. Run ends with ErrClosed or ErrUnsupported of the
// store, and with ErrInvalid, ErrTooLarge or ErrUnsupported before it does anything. A panic of fn is ErrPanic. Run can be called several times at the same
// time, also with one name in one process.
func Run(ctx context.Context, store annals.Store, name string, o Options, fn func(ctx context.Context, fence annals.SeqNr) error) error {
	var faults []error
	if name == "" {
		faults = append(faults, errors.New("the lease has no name"))
	}
	if o.Lease != 0 && o.Lease < 10*time.Millisecond {
		faults = append(faults, fmt.Errorf("Options.Lease is %v, less than 10 ms", o.Lease))
	}
	if store == nil || fn == nil {
		faults = append(faults, errors.New("the store or the function is missing"))
	} else {
		faults = append(faults, valid.ID("run", documentOf(name).ID, store.Capabilities().Limits))
	}
	if err := errors.Join(faults...); err != nil {
		return &annals.Error{Op: "run with lease " + quote.Text(name), Kind: annals.ErrInvalid, Err: err}
	}
	if err := claims.Refusal("run with lease "+quote.Text(name), store.Capabilities(), claims.Lease); err != nil {
		return err
	}
	m := &member{
		store: store, name: name, id: rand.Text()[:16], lease: cmp.Or(o.Lease, 10*time.Second), log: panics.Logger(o.Logger), fn: fn,
	}
	return m.run(ctx)
}

// record says who has the lease. Whoever takes or renews it writes it after the revision that was read, which is therefore the sign of life, and the
// fence when it was taken.
type record struct {
	Holder string `json:"holder,omitempty"` // "": the lease is free
	Lease  int64  `json:"lease,omitempty"`  // of the holder, in milliseconds
}

var recordCodec = codec.JSON[record]("annals.lease")

func documentOf(name string) document.Document[record] {
	return document.Document[record]{ID: annals.NewPersistenceID("annals.lease", name), Codec: recordCodec, Check: func(r record) error {
		if r.Holder != "" && r.Lease <= 0 {
			return fmt.Errorf("the lease of holder %s is %d ms", quote.Text(r.Holder), r.Lease)
		}
		return nil
	}}
}

// member is one call of Run.
type member struct {
	store annals.Store
	name  string
	id    string
	lease time.Duration
	log   *slog.Logger
	fn    func(ctx context.Context, fence annals.SeqNr) error
	watch leases.Watch[annals.SeqNr]
	fails int // in a row
}

func (m *member) run(ctx context.Context) error {
	for {
		began := time.Now()
		fence, err := m.take(ctx)
		if fence > 0 {
			if ended, err := m.hold(ctx, fence, began); ended {
				return err
			}
			continue
		}
		if final(err) && ctx.Err() == nil {
			return err
		}
		wait := leases.Pace(m.lease, false)
		if err != nil {
			wait = m.failed(ctx, err)
		}
		if backoff.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

func final(err error) bool {
	return errors.Is(err, annals.ErrClosed) || errors.Is(err, annals.ErrUnsupported)
}

// failed logs some of the failures, and returns how long to wait after this one.
func (m *member) failed(ctx context.Context, err error) time.Duration {
	wait := min(backoff.Delay(m.fails), m.lease/10)
	if m.fails++; backoff.Seldom(m.fails) && ctx.Err() == nil && !errors.Is(err, annals.ErrConflict) {
		m.log.WarnContext(ctx, "annals: a lease cannot be taken or renewed", "lease", m.name, "error", err, "try", m.fails)
	}
	return wait
}

// take returns the revision with which the lease was taken, or 0 while another one has it.
func (m *member) take(ctx context.Context) (fence annals.SeqNr, err error) {
	ctx, cancel := m.look(ctx)
	defer cancel()
	r, revision, err := documentOf(m.name).Load(ctx, m.store)
	if err != nil {
		return 0, err
	}
	// The time is taken after the read: the holder wrote what was read before that, and its lease began before it wrote.
	if r.Holder != "" && r.Holder != m.id {
		signs := map[string]leases.Sign[annals.SeqNr]{r.Holder: {Beat: revision, Lease: time.Duration(r.Lease) * time.Millisecond}}
		if dead := m.watch.Look(signs, time.Now()); len(dead) == 0 {
			m.fails = 0
			return 0, nil
		}
		m.log.WarnContext(ctx, "annals: a lease is taken from a process without a sign of life", "lease", m.name, "holder", r.Holder)
	}
	return m.write(ctx, revision)
}

// write takes or renews the lease, and returns the new revision.
func (m *member) write(ctx context.Context, after annals.SeqNr) (annals.SeqNr, error) {
	if err := documentOf(m.name).Save(ctx, m.store, after, record{m.id, m.lease.Milliseconds()}); err != nil {
		return 0, err
	}
	m.fails = 0
	return after + 1, nil
}

// look is the context for a read or a write of the record. A late sign of life is better than none.
func (m *member) look(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(m.lease, leases.LookTime))
}

// hold calls fn while the lease lasts, which was taken by a write that began at that time. It reports whether Run ends, with which error.
func (m *member) hold(ctx context.Context, fence annals.SeqNr, began time.Time) (ended bool, err error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	// Another process takes the lease at the earliest when it has seen the same revision for the time of the lease.
	expires := func(began time.Time) time.Duration { return time.Until(began.Add(m.lease / 5 * 4)) }
	expiry := time.AfterFunc(expires(began), stop)
	defer expiry.Stop()
	done := make(chan error, 1)
	renewing, returned := context.WithCancel(context.WithoutCancel(ctx)) // also while fn returns after the end of ctx
	go func() {
		defer returned()
		done <- panics.Contain("run with lease "+quote.Text(m.name), "", func() error { return m.fn(working, fence) })
	}()

	renewed := fence
	next := time.NewTimer(leases.Pace(m.lease, false))
	defer next.Stop()
	for {
		select {
		case err = <-done:
			if ctx.Err() == nil && working.Err() != nil {
				m.log.WarnContext(ctx, "annals: a lease was lost, or could not be renewed in time", "lease", m.name)
				return false, nil
			}
			stop() // what fn has left behind with its context ends before others begin
			m.free(ctx)
			if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
				err = nil
			}
			return true, err
		case <-next.C:
			began, lost := time.Now(), false
			renewed, lost, err = m.renew(renewing, renewed)
			switch {
			case lost:
				stop() // the loop waits until fn has returned
			case err != nil:
				next.Reset(m.failed(renewing, err))
			case expiry.Stop():
				expiry.Reset(expires(began))
				fallthrough
			default:
				next.Reset(leases.Pace(m.lease, false))
			}
		}
	}
}

// renew writes a sign of life, and returns its revision, or the one after which the next try writes. lost says that another process has the lease.
func (m *member) renew(ctx context.Context, after annals.SeqNr) (revision annals.SeqNr, lost bool, err error) {
	ctx, cancel := m.look(ctx)
	defer cancel()
	revision, err = m.write(ctx, after)
	if err == nil {
		return revision, false, nil
	}
	if !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrUnknown) {
		return after, false, err
	}
	r, revision, readErr := documentOf(m.name).Load(ctx, m.store) // an earlier write whose answer was lost may have been stored
	switch {
	case readErr != nil:
		return after, false, readErr
	case r.Holder != m.id:
		return 0, true, nil
	}
	return revision, false, err
}

// free gives up the lease.
func (m *member) free(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.lease)
	defer cancel()
	err := documentOf(m.name).Change(ctx, m.store, func(r *record) error {
		if r.Holder != m.id {
			return document.ErrUnchanged
		}
		*r = record{}
		return nil
	})
	if err != nil {
		m.log.WarnContext(ctx, "annals: others take a lease only after its time", "lease", m.name, "error", err)
	}
}
