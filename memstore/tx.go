package memstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/contexts"
)

// Tx is the transaction of a store that has no tables: values by key, kept in the store and undone with the transaction.
type Tx struct{ view view }

// Value is the value of key; nil when there is none.
func (tx Tx) Value(key string) any { return tx.view.value(key) }

// SetValue sets the value of key.
func (tx Tx) SetValue(key string, value any) {
	d, unlock := tx.view.read()
	defer unlock()
	d.values.set(key, value)
}

// Value is the value of key that a transaction has set; nil when there is none.
func (s *Store) Value(key string) any { return view{backend: s.backend}.value(key) }

func (v view) value(key string) any {
	d, unlock := v.read()
	defer unlock()
	return d.values.get(key)
}

// transaction is a transaction that is open, or that has been undone while code of the user in it had not returned.
type transaction struct {
	data  data
	ended error // of writes; nil while it is open
}

// InTx is ability.Transactor. Other writes wait until fn has returned or ctx has ended; then the transaction is undone.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx Tx, in annals.Store) error) error {
	return driver.Write(ctx, s.Store, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		return s.backend.alone(ctx, func(ctx context.Context, v view) error {
			return driver.InTx(ctx, s.Store, driver.Transaction{Driver: v}, func(ctx context.Context, in *driver.Store) error { return fn(ctx, Tx{v}, in) })
		})
	})
}

// atomically is InTx without writes of the caller's own.
func (s *Store) atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return s.InTx(ctx, func(ctx context.Context, _ Tx, in annals.Store) error { return fn(ctx, in) })
}

// alone runs fn, with code of the user, in a transaction. Other writes go on when ctx ends, also when fn has not returned.
func (b *backend) alone(ctx context.Context, fn func(ctx context.Context, v view) error) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	d, unlock := view{backend: b}.read()
	tx := &transaction{data: d.layer()}
	unlock()
	open := contexts.UndoAtEnd(ctx, func() {
		b.mu.Lock()
		tx.ended = withdrawn(ctx)
		d.part(&tx.data)
		b.mu.Unlock()
		b.end()
	})
	defer func() {
		if open() {
			b.end()
		}
	}()
	if err := fn(ctx, view{b, tx}); err != nil {
		return err
	}
	if !open() {
		return withdrawn(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d.merge(&tx.data)
	b.wake()
	return nil
}

// undoable runs fn, code of the user in a transaction, without the lock, which is held. It undoes what fn changed when that fails or panics.
func (v view) undoable(fn func() error) error {
	before, done := v.tx.data.layer(), false
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		if !done {
			v.tx.data = before
		}
	}()
	err := fn()
	done = err == nil
	return err
}
