package memstore_test

import (
	"context"
	"iter"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

// The acknowledgement of a delivery whose entity was forgotten meanwhile is no error, also after that of another delivery.
func TestAcknowledgeForgotten(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	add := func(id annals.PersistenceID) {
		t.Helper()
		c := annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	next, stop := iter.Pull2(s.Unwrap().(ability.Subscriber).Subscribe(context.WithoutCancel(t.Context()), "s", annals.Filter{}))
	defer stop()
	add("T|1")
	first, _, _ := next()
	add("T|2")
	second, _, _ := next()
	if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1"}); !done || err != nil {
		t.Fatalf("forget: %v, %v", done, err)
	}
	for i, d := range []ability.Delivery{second, first, first} {
		if err := d.Ack(t.Context()); err != nil {
			t.Errorf("acknowledgement %d: %v", i, err)
		}
	}
}
