package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

// The age counts from the last delete, of events or of the state.
func TestForgetAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		payload := annals.Payload{SerializerID: 1, Data: []byte("x")}
		forget := func(want bool) {
			t.Helper()
			got, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1", Age: ability.ForgetAge})
			if got != want || err != nil {
				t.Errorf("forgotten %v, %v, want %v", got, err, want)
			}
		}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: payload}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "T|1", Payload: payload}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "T|1", After: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil { // deletes nothing: no new age
			t.Fatal(err)
		}
		forget(false)
		time.Sleep(10 * time.Minute)
		forget(false)
		time.Sleep(5*time.Minute - time.Microsecond)
		forget(false)
		time.Sleep(time.Microsecond)
		forget(true)
	})
}

// Inside a transaction forgetting is undone with it.
func TestForgetInTx(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "T|1"}); err != nil {
		t.Fatal(err)
	}
	err := s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
		forgetter, err := ability.Of[ability.Forgetter](in)
		if err != nil {
			return err
		}
		if ok, err := forgetter.Forget(ctx, ability.Forgetting{ID: "T|1"}); !ok || err != nil {
			t.Errorf("forgotten %v, %v", ok, err)
		}
		return context.Canceled
	})
	if state, _, _ := s.States().Get(t.Context(), "T|1"); err == nil || state.Revision != 1 {
		t.Errorf("after the rollback: revision %d, %v", state.Revision, err)
	}
}
