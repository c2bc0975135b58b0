package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/lease"
	"github.com/annals-go/annals/memstore"
)

func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memstore.New()
	send := func(_ context.Context, fence annals.SeqNr) error {
		fmt.Println("sends reports with fence", fence)
		stop() // for this example; a service stops at SIGTERM
		return nil
	}

	// All instances of a service call this. One of them sends reports, and another one goes on when that one stops or is killed.
	err := lease.Run(ctx, store, "reports", lease.Options{}, func(ctx context.Context, fence annals.SeqNr) error {
		for {
			if err := send(ctx, fence); err != nil {
				return err
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	fmt.Println(err)
	// Output:
	// sends reports with fence 1
	// <nil>
}

// A table with one row says up to where reports were sent. A process that has lost the lease and does not know it cannot change the row.
func ExampleRun_fence() {
	sent := func(ctx context.Context, db *sql.DB, to int64, fence annals.SeqNr) error {
		done, err := db.ExecContext(ctx, `UPDATE reports SET sent_to = $1, fence = $2 WHERE fence <= $2`, to, int64(fence))
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err == nil && n == 0 {
			err = errors.New("another process sends reports")
		}
		return err
	}
	_ = sent
}
