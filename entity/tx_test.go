package entity_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// A command within a transaction of the runtime's own store is refused at once: it could wait for the transaction, which waits for the
// answer. Within a transaction of another store it is executed.
func TestAskWithinATransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, other := memstore.New(), memstore.New()
		r, err := entity.New(own, account, entity.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Shutdown(t.Context()) }()
		ask := func(ctx context.Context, _ memstore.Tx, _ annals.Store) error {
			_, err := r.Ask(ctx, "1", 5)
			return err
		}
		if err := own.InTx(t.Context(), ask); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("within a transaction of its store: %v, want ErrInvalid", err)
		}
		for name, s := range map[string]annals.Store{"embeds": struct{ *memstore.Store }{own}, "unwraps": faulty.Able{Store: &faulty.Store{Store: own, Around: func(_ context.Context, _ *faulty.Call, run func() error) error { return run() }}}} {
			wrapped, err := entity.New(s, account, entity.Options{})
			if err != nil {
				t.Fatal(err)
			}
			outside, began := make(chan error), time.Now()
			if err := own.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, _ annals.Store) error {
				go func() {
					_, err := wrapped.Ask(t.Context(), "2", 5) // waits for the transaction
					outside <- err
				}()
				synctest.Wait()
				_, err := wrapped.Ask(ctx, "2", 0)
				return err
			}); !errors.Is(err, annals.ErrInvalid) || time.Since(began) > 0 {
				t.Errorf("within a transaction of the store that the runtime's store %s: %v after %v, want ErrInvalid at once", name, err, time.Since(began))
			}
			if err := errors.Join(<-outside, wrapped.Shutdown(t.Context())); err != nil {
				t.Error(err)
			}
		}
		if err := own.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, _ annals.Store) error {
			return other.InTx(ctx, ask)
		}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("within two transactions, one of its store: %v, want ErrInvalid", err)
		}
		if err := other.InTx(t.Context(), ask); err != nil {
			t.Errorf("within a transaction of another store: %v", err)
		}
		if err := own.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
			inner, err := entity.New(in, account, entity.Options{})
			if err != nil {
				return err
			}
			_, err = inner.Ask(ctx, "3", 5)
			return errors.Join(err, inner.Shutdown(ctx))
		}); err != nil {
			t.Errorf("of a runtime of the store within the transaction: %v", err)
		}
		if balance, err := r.Ask(t.Context(), "1", 0); err != nil || balance != 5 {
			t.Errorf("balance %d (%v), want 5", balance, err)
		}
	})
}
