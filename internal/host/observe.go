package host

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/contexts"
)

// The operations of hosts as in annals.Call. None of them is an operation of a store: one Observer may be given to both.
const (
	OpLoad     = "load"     // reads an entity
	OpWrite    = "write"    // writes what one or more commands decided, with all tries
	OpConfirm  = "confirm"  // looks whether another owner has written
	OpSnapshot = "snapshot" // saves a snapshot and deletes what it makes superfluous
)

// Observed is a Model whose calls to the store the Observer of its host is told of.
type Observed[C, S, R any] struct {
	Model[C, S, R]
	ID         func(id string) annals.PersistenceID // of the entity named id, not checked
	store      parts                                // that Write writes to
	c          Config
	limits     annals.Limits
	repeatable bool          // the store recognises a write that is sent again
	given      *atomic.Int64 // writes in a row that were given up
}

// Load is e.Load.
func (o *Observed[C, S, R]) Load(ctx context.Context, id annals.PersistenceID, e Entity[C, S, R]) error {
	return o.observe(ctx, annals.Call{Op: OpLoad, ID: id}, e.Load)
}

// On returns an Observed whose Write writes once, to s, which is the store within a transaction.
func (o Observed[C, S, R]) On(s annals.Store) Observed[C, S, R] {
	o.store = partsOf(s)
	o.store.within = true
	return o
}

// Write writes w. While the outcome is unknown or the store is unavailable, it sends the identical write again, until ctx ends. The store's own
// attempts, which are limited, have ended by then. After ErrUnknown w may have been written; after any other error it was not.
func (o *Observed[C, S, R]) Write(ctx context.Context, w *Write) (receipt annals.Receipt, err error) {
	err = o.observeSince(ctx, w.Began, annals.Call{Op: OpWrite, ID: w.ID(), Events: len(w.Commit.Events)}, func(ctx context.Context) (r annals.Result, err error) {
		if receipt, r.Retries, err = o.store.send(ctx, w, o.repeatable); err == nil {
			r.Events, r.Bytes = len(w.Commit.Events), w.bytes()
		}
		o.settled(ctx, w, r.Retries, err)
		return r, err
	})
	return receipt, err
}

// settled logs the 1st, 2nd, 4th, 8th … write in a row that the store has not taken although it was sent several times.
func (o *Observed[C, S, R]) settled(ctx context.Context, w *Write, retries int, err error) {
	switch {
	case err == nil:
		if o.given.Load() > 0 {
			o.given.Store(0)
		}
	case retries > 0 && annals.SafeToRetry(err):
		if n := o.given.Add(1); backoff.Seldom(int(n)) {
			o.c.Logger.LogAttrs(ctx, slog.LevelError, "annals: a write was given up after it was sent several times", slog.String("op", w.Op()), slog.String("id", string(w.ID())),
				slog.Int("retries", retries), slog.Int64("writes given up in a row", n), slog.Any("error", err))
		}
	}
}

// Confirm is Check.
func (o *Observed[C, S, R]) Confirm(ctx context.Context, w *Write) error {
	return o.observeSince(ctx, w.Began, annals.Call{Op: OpConfirm, ID: w.ID()}, func(ctx context.Context) (annals.Result, error) {
		return annals.Result{}, Check(ctx, o.Model, w)
	})
}

// Ask runs fn, which executes a command of the entity named id, and tells the Observer about it, which there is: without
// one, a host calls its own function, so that nothing is allocated for a closure.
func (o *Observed[C, S, R]) Ask(ctx context.Context, id string, fn func(ctx context.Context) (behavior.Result[R], error)) (result behavior.Result[R], err error) {
	pid, _ := o.name(OpAsk, id)       // fn refuses an id that is wrong
	if contexts.Callers(ctx) != nil { // of a call around, for which the command is sent
		ctx = contexts.WithCaller(ctx, ctx)
	}
	b := observation{ctx: ctx, call: annals.Call{Op: OpAsk, ID: pid}}
	b.begin(&o.c)
	defer b.end(&err)
	result, err = fn(b.ctx)
	b.returned = true
	return result, err
}

// SaveSnapshot is Model.SaveSnapshot within the WriteTimeout. An error is logged: no command depends on s, and a later one takes the next
// snapshot.
func (o *Observed[C, S, R]) SaveSnapshot(ctx context.Context, s NewSnapshot) {
	ctx, cancel := context.WithTimeout(ctx, o.c.WriteTimeout)
	defer cancel()
	err := o.observe(ctx, annals.Call{Op: OpSnapshot, ID: s.ID}, func(ctx context.Context) (r annals.Result, err error) {
		if err = o.Model.SaveSnapshot(ctx, s); err == nil {
			r.Bytes = len(s.Data)
		}
		return r, err
	})
	if err != nil {
		o.c.Logger.LogAttrs(ctx, slog.LevelWarn, "annals: snapshot not saved or not cleaned up after",
			slog.String("id", string(s.ID)), slog.Int64("seq_nr", int64(s.SeqNr)), slog.Any("error", err))
	}
}

// observe runs fn, which does what c says and returns its counts, and tells the Observer about it.
func (o *Observed[C, S, R]) observe(ctx context.Context, c annals.Call, fn func(ctx context.Context) (annals.Result, error)) error {
	return o.observeSince(ctx, time.Time{}, c, fn)
}

// observeSince is observe for a call that began before; zero is now.
func (o *Observed[C, S, R]) observeSince(ctx context.Context, began time.Time, c annals.Call, fn func(ctx context.Context) (annals.Result, error)) (err error) {
	b := observation{ctx: ctx, call: c, began: began}
	b.begin(&o.c)
	defer b.end(&err)
	b.result, err = fn(b.ctx)
	b.returned = true
	return err
}

// observation is a call that the Observer is told of.
type observation struct {
	observer annals.Observer // nil: there is none
	ctx      context.Context // as the Observer has it
	call     annals.Call
	began    time.Time
	result   annals.Result
	returned bool
}

// begin tells the Observer of the call.
func (b *observation) begin(c *Config) {
	if c.Observer == nil {
		return
	}
	if b.observer, b.call.Store = c.Observer, c.Host; b.began.IsZero() {
		b.began = time.Now()
	}
	b.ctx = b.observer.Start(b.ctx, b.call)
}

// end tells the Observer of the end of the call, and of its error.
func (b *observation) end(err *error) {
	if b.observer == nil {
		return
	}
	if b.result.Duration, b.result.Err = time.Since(b.began), *err; !b.returned { // domain code has ended the goroutine
		b.result.Err = Exited(b.call.Op, b.call.ID)
	}
	b.observer.End(b.ctx, b.call, b.result)
}

// bytes is the size of what w holds, counted as stores count it: payloads and metadata.
func (w *Write) bytes() (n int) {
	for i := range w.Commit.Events {
		n += len(w.Commit.Events[i].Data) + len(w.Commit.Events[i].Metadata.Data)
	}
	if s := w.Commit.Snapshot; s != nil {
		n += len(s.Data)
	}
	return n + len(w.State.Data) + len(w.State.Metadata.Data)
}
