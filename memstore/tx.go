package memstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// Tx is the transaction of a store that has no tables: values by key, kept in the store and undone with the transaction.
type Tx struct{ data *data }

// Value is the value of key; nil when there is none.
func (tx Tx) Value(key string) any { return tx.data.values.get(key) }

// SetValue sets the value of key.
func (tx Tx) SetValue(key string, value any) { tx.data.values.set(key, value) }

// Value is the value of key that a transaction has set; nil when there is none.
func (s *Store) Value(key string) any {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	return s.backend.data.values.get(key)
}

// InTx is ability.Transactor. The store is locked while fn runs.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx Tx, in annals.Store) error) error {
	return driver.Write(ctx, s.Store, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		in, end := driver.InTx(s.Store, view{s.backend, true})
		defer end()
		d, unlock := view{backend: s.backend}.write()
		defer unlock()
		return s.backend.undoable(ctx, d, func(ctx context.Context) error {
			if err := fn(ctx, Tx{d}, driver.Abilities{Store: in}); err != nil {
				return &annals.Error{Op: "transaction", Err: err}
			}
			return nil
		})
	})
}

// undoable runs fn, the user's, and undoes what it changed in d when it fails or panics. The outer store reads what was there before.
func (b *backend) undoable(ctx context.Context, d *data, fn func(ctx context.Context) error) error {
	before := *d
	outermost := b.before.CompareAndSwap(nil, &before)
	end, keep := d.begin(), false
	defer func() {
		b.ending.Lock()
		defer b.ending.Unlock()
		if outermost {
			b.before.Store(nil)
		}
		end(keep)
	}()
	err := fn(driver.ContextWithTx(ctx, b.self))
	keep = err == nil
	return err
}

// begin is table.begin for all that is stored.
func (d *data) begin() (end func(keep bool)) {
	clock := d.clock
	ends := []func(bool){d.streams.begin(), d.snapshots.begin(), d.states.begin(), d.offsets.begin(), d.values.begin()}
	return func(keep bool) {
		for _, end := range ends {
			end(keep)
		}
		if !keep {
			d.clock = clock
		}
	}
}
