package dynamostore_test

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
)

// brokenObserver panics in all methods.
type brokenObserver struct{}

func (brokenObserver) Start(context.Context, annals.Call) context.Context { panic("of the test") }
func (brokenObserver) End(context.Context, annals.Call, annals.Result)    { panic("of the test") }

// A panic of the Observer does not disturb calls.
func TestPanicInObserver(t *testing.T) {
	t.Parallel()
	s := openCommit(t, client(t), dynamostore.Options{Observer: brokenObserver{}})
	event := annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: []byte("x")}}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{event}}); err != nil {
		t.Error(err)
	}
	if n, err := s.Journal().LastSeqNr(t.Context(), "T|1"); n != 1 || err != nil {
		t.Errorf("last number %d, %v, want 1", n, err)
	}
}
