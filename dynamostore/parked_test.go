package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
)

// Parked entities are those of a store with subscriptions.
func TestParkedEntities(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]dynamostore.Subscriptions{"with": {Table: "s" + rand.Text(), Streams: streamsClient(t, dynamo.Endpoint(t))}, "without": {}} {
		want, wantRetry := error(nil), annals.ErrInvalid // there is no subscription yet
		if o.Table == "" {
			want, wantRetry = annals.ErrUnsupported, annals.ErrUnsupported
		}
		s, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: "t" + rand.Text()}, dynamostore.Options{CreateTables: true, Subscriptions: o})
		if err != nil {
			t.Fatal(err)
		}
		parked, err := s.ParkedEntities(t.Context(), "s")
		if !errors.Is(err, want) || len(parked) != 0 {
			t.Errorf("%s: got %v, %v, want %v", name, parked, err, want)
		}
		if err := s.RetryParked(t.Context(), "s"); !errors.Is(err, wantRetry) {
			t.Errorf("%s: retry: got %v, want %v", name, err, wantRetry)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
