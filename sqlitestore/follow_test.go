package sqlitestore_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/sqlitestore"
)

// Beside writers on two stores on one file, workers that begin anew get every event once, in order.
func TestFollowTwoStores(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	stores := []*sqlitestore.Store{openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})}
	followtest.Feeds(t, stores[0], func(ctx context.Context, w *followtest.Writer) error {
		for range 60 {
			if err := w.Append(ctx, stores[w.Random.IntN(2)]); err != nil {
				return err
			}
		}
		return nil
	})
}
