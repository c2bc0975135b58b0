// Package process takes orders from placed to shipped or cancelled. It is a process manager: it follows the events of orders and items,
// and sends commands to them.
//
//	order placed            → the item reserves its pieces; unless the order is paid within a time, it is cancelled
//	item reserved           → the order is confirmed, and can be paid
//	item refused            → the order is cancelled
//	order paid              → the item ships the pieces
//	order cancelled         → the item releases the pieces
//
// Each command takes effect once, wherever the program is killed:
//
//   - A projection handles each event exactly once. It writes the commands to a table, in the transaction that also saves its position.
//     A timer is such a row, too: a command that is to be sent later.
//   - A row is deleted after its command was executed. If the program is killed in between, the command is sent again, with the same id,
//     and the entity recognises the id.
package process

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/checkout/item"
	"github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// Process runs on one store. Several processes may run on the same file: they share the events, and a command that two of them send takes
// effect once.
type Process struct {
	store  *sqlitestore.Store
	orders *aggregate.Repository[order.Command, order.Order, order.Order]
	items  *aggregate.Repository[item.Command, item.Item, int]
	runner *projection.Runner
	log    *slog.Logger
}

// Options of a Process.
type Options struct {
	Within time.Duration // an order that has not been paid within this time is cancelled; a change is for orders that are placed afterwards
	Lease  time.Duration // as in projection.Options
	Logger *slog.Logger  // nil: slog.Default()
}

// New returns the process for the orders and items in store, whose Options.Init was Init.
func New(store *sqlitestore.Store, o Options) (*Process, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	orders, err := aggregate.New(store, order.Behavior, aggregate.Options{})
	if err != nil {
		return nil, err
	}
	items, err := aggregate.New(store, item.Behavior, aggregate.Options{})
	if err != nil {
		return nil, err
	}
	handle := func(ctx context.Context, tx *sql.Tx, e projection.Envelope[any]) error {
		more, done := react(e.Event, e.Value, o.Within)
		for _, t := range more {
			if err := add(ctx, tx, t); err != nil {
				return err
			}
		}
		for _, id := range done {
			if err := remove(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	}
	runner, err := projection.ExactlyOnce("checkout", projection.Source[any]{Store: store, Codec: events}, store, handle, projection.Options{Lease: o.Lease, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Process{store, orders, items, runner, o.Logger}, nil
}

const (
	poll = time.Second      // the most time between two looks at the table
	rest = time.Second / 10 // after a failure
)

// Run works until ctx ends, and returns nil then.
func (p *Process) Run(outer context.Context) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	committed, err := p.store.Watch(ctx, annals.Filter{})
	if err != nil {
		return err
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		if err := p.runner.Run(ctx); err != nil {
			cancel(err)
		}
	}()
	for ctx.Err() == nil {
		wait := rest
		if next, err := p.send(ctx); err == nil {
			wait = max(min(time.Until(next), poll), 0)
		} else if ctx.Err() == nil {
			p.log.WarnContext(ctx, "a command is sent again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-committed:
		case <-time.After(wait):
		}
	}
	<-ran
	if outer.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// Settle handles all events and sends all commands that are due, until there is nothing left to do now.
func (p *Process) Settle(ctx context.Context) error {
	for {
		if err := p.runner.CatchUp(ctx); err != nil {
			return err
		}
		t, ok, err := first(ctx, p.store.DB())
		if err != nil || !ok || t.at.After(time.Now()) {
			return err
		}
		if _, err := p.send(ctx); err != nil {
			return err
		}
	}
}

// send sends the commands that are due, one after the other, and returns when the next one is due, or a later time than any.
func (p *Process) send(ctx context.Context) (next time.Time, err error) {
	for {
		t, ok, err := first(ctx, p.store.DB())
		switch now := time.Now(); {
		case err != nil:
			return time.Time{}, err
		case !ok:
			return now.Add(poll), nil
		case t.at.After(now):
			return t.at, nil
		}
		if err := p.execute(ctx, t); err != nil {
			return time.Time{}, err
		}
		err = p.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error { return remove(ctx, tx, t.id) })
		if err != nil {
			return time.Time{}, err
		}
	}
}

// execute sends a command. A rejection is an answer as good as any: an order that was paid a moment ago, say, is not cancelled any more.
func (p *Process) execute(ctx context.Context, t todo) (err error) {
	switch c := t.do.(type) {
	case order.Command:
		_, err = p.orders.Ask(ctx, t.to, c)
	case item.Command:
		_, err = p.items.Ask(ctx, t.to, c)
	}
	if failure := (*annals.Error)(nil); err == nil || errors.As(err, &failure) {
		return err
	}
	p.log.InfoContext(ctx, "a command was rejected", "command", t.id, "rejection", err)
	return nil
}
