package storetest

import (
	"context"
	"errors"
	"runtime"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// looking has transactions beside which others write. It collects their writes, compares the numbers that they have read, and then
// stores the writes.
type looking struct {
	*memstore.Store
	before    bool // others write between the comparison and the writes
	elsewhere bool // what is written is not compared
}

func (s looking) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	var writes, looks []func(in annals.Store) error
	written := map[annals.PersistenceID]bool{}
	look := func(id annals.PersistenceID, seen annals.SeqNr, read numbering) {
		looks = append(looks, func(in annals.Store) error {
			if n, err := read(ctx, in, id); err != nil || n != seen && !(s.elsewhere && written[id]) {
				return errors.Join(err, &annals.Error{Op: "transaction", Kind: annals.ErrConflict})
			}
			return nil
		})
	}
	write := func(id annals.PersistenceID, write func(in annals.Store) error) {
		written[id] = true
		writes = append(writes, write)
	}
	in := &faulty.Store{Store: s.Store, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
		switch arg := c.Arg.(type) {
		case *annals.Commit:
			write(c.ID, func(in annals.Store) error { _, err := in.Journal().Append(ctx, *arg); return err })
			return nil
		case *annals.StateWrite:
			write(c.ID, func(in annals.Store) error { _, err := in.States().Put(ctx, *arg); return err })
			return nil
		}
		err := run()
		switch got := c.Result.(type) {
		case *annals.SeqNr:
			look(c.ID, *got, numberings[0])
		case *annals.State:
			look(c.ID, got.Revision, revision)
		}
		return err
	}}
	if err := fn(ctx, in); err != nil {
		return err
	}
	all := func(in annals.Store, calls []func(in annals.Store) error) error {
		for _, call := range calls {
			if err := call(in); err != nil {
				return err
			}
		}
		return nil
	}
	if s.before {
		if err := all(s.Store, looks); err != nil {
			return err
		}
		looks = nil
		for range 100 {
			runtime.Gosched() // as a network would
		}
	}
	return ability.Atomically(ctx, s.Store, func(_ context.Context, in annals.Store) error {
		return all(in, append(looks, writes...))
	})
}

// guardingEvents guards the number of the last event that a replay has yielded.
type guardingEvents struct{ *memstore.Store }

func (s guardingEvents) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return ability.Atomically(ctx, s.Store, func(ctx context.Context, in annals.Store) error {
		var changed error
		err := fn(ctx, &faulty.Store{Store: in, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
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
