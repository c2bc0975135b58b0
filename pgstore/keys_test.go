package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/pgstore"
)

// afterKeys calls once when the keys of an entity have been read within a transaction.
type afterKeys struct{ once func() }

func (a *afterKeys) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (a *afterKeys) End(_ context.Context, c annals.Call, _ annals.Result) {
	if call := a.once; call != nil && c.ID == "annals.keys|Sum|a" {
		a.once = nil
		call()
	}
}

// Another process executes the same command between the read of the keys and that of the entity. The command is in the caller's transaction then,
// but its key cannot be: the transaction is not stored, also when its function sends the command again and gets the reply.
func TestKeysOfAnother(t *testing.T) {
	t.Parallel()
	sum := behavior.EventSourced[int, int, int, int]{
		Type:   "Sum",
		Decide: func(_, n int) ([]int, error) { return []int{n}, nil },
		Evolve: func(s, n int) int { return s + n },
		Reply:  func(s, _ int, _ []int) int { return s },
	}
	there := open(t, pgstore.Options{})
	other, err := aggregate.New(there, sum, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hook := &afterKeys{once: func() {
		if _, err := other.AskOnce(t.Context(), "k", "a", 5); err != nil {
			t.Error(err)
		}
	}}
	here := openAt(t, urls.of(there), pgstore.Options{Observer: hook, WriteTimeout: time.Minute})
	err = here.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
		r, err := aggregate.New(in, sum, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := r.AskOnce(ctx, "k", "a", 5); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("the key is there: %v", err)
		}
		_, err = r.AskOnce(ctx, "k", "a", 5)
		return err
	})
	if !errors.Is(err, annals.ErrConflict) {
		t.Errorf("of the transaction: %v", err)
	}
	if s, n, err := other.Load(t.Context(), "a"); s != 5 || n != 1 || err != nil {
		t.Errorf("%d at %d, %v", s, n, err)
	}
}
