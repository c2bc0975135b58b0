package dynamostore_test

import (
	"context"
	"testing"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/followtest"
)

// Beside writers, workers that begin anew get every event once, in order, also those that the horizon has not passed.
func TestFollow(t *testing.T) {
	t.Parallel()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	followtest.Feeds(t, s, func(ctx context.Context, w *followtest.Writer) error {
		for range 25 {
			if err := w.Append(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}
