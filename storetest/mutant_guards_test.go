package storetest

import (
	"context"
	"errors"
	"runtime"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// lookingBefore has transactions beside which others write. It collects their writes, compares the numbers that they have read, and then
// stores the writes.
type lookingBefore struct{ *memstore.Store }

func (s lookingBefore) InTx(ctx context.Context, fn func(ctx context.Context, tx memstore.Tx, in annals.Store) error) error {
	var writes []func(in annals.Store) error
	var looks []func() error
	look := func(seen annals.SeqNr, read func() (annals.SeqNr, error)) {
		looks = append(looks, func() error {
			if n, err := read(); err != nil || n != seen {
				return errors.Join(err, &annals.Error{Op: "transaction", Kind: annals.ErrConflict})
			}
			return nil
		})
	}
	in := &faulty.Store{Store: s.Store, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
		switch arg := c.Arg.(type) {
		case *annals.Commit:
			writes = append(writes, func(in annals.Store) error { _, err := in.Journal().Append(ctx, *arg); return err })
			return nil
		case *annals.StateWrite:
			writes = append(writes, func(in annals.Store) error { _, err := in.States().Put(ctx, *arg); return err })
			return nil
		}
		err := run()
		switch got := c.Result.(type) {
		case *annals.SeqNr:
			look(*got, func() (annals.SeqNr, error) { return s.Journal().LastSeqNr(ctx, c.ID) })
		case *annals.State:
			look(got.Revision, func() (annals.SeqNr, error) { return revision(ctx, s, c.ID) })
		}
		return err
	}}
	if err := fn(ctx, memstore.Tx{}, in); err != nil {
		return err
	}
	for _, look := range looks {
		if err := look(); err != nil {
			return err
		}
	}
	for range 100 {
		runtime.Gosched() // as a network would
	}
	return s.Store.InTx(ctx, func(_ context.Context, _ memstore.Tx, in annals.Store) error {
		var errs []error
		for _, write := range writes {
			errs = append(errs, write(in))
		}
		return errors.Join(errs...)
	})
}

// guardingEvents guards the number of the last event that a replay has yielded.
type guardingEvents struct{ *memstore.Store }

func (s guardingEvents) InTx(ctx context.Context, fn func(ctx context.Context, tx memstore.Tx, in annals.Store) error) error {
	return s.Store.InTx(ctx, func(ctx context.Context, tx memstore.Tx, in annals.Store) error {
		var changed error
		err := fn(ctx, tx, &faulty.Store{Store: in, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			var last annals.SeqNr
			c.Each = func(value any) error {
				if e, ok := value.(*annals.Event); ok {
					last = e.SeqNr
				}
				return nil
			}
			err := run()
			if n, failed := in.Journal().LastSeqNr(ctx, c.ID); c.Op == "replay" && n != last {
				changed = errors.Join(failed, &annals.Error{Op: "transaction", ID: c.ID, Last: n, Kind: annals.ErrConflict})
			}
			return err
		}})
		return errors.Join(err, changed)
	})
}

// loose runs Atomically without a transaction.
type loose struct{ *memstore.Store }

func (s loose) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return fn(ctx, s.Store)
}
