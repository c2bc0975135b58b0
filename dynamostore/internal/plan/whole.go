package plan

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// Looks is how often Whole reads at most.
const Looks = 10

// Whole calls read again, after longer and longer waits, as long as it says that something is missing, and at last returns that error. It is for items that
// are written together: a query is not of one moment, and can see a part of a transaction.
func Whole(ctx context.Context, read func() (missing, err error)) error {
	for look := 1; ; look++ {
		missing, err := read()
		switch {
		case err != nil || missing == nil:
			return err
		case look == Looks:
			return missing
		}
		if err := backoff.Wait(ctx, look); err != nil {
			return &annals.Error{Kind: annals.ErrUnavailable, Err: err}
		}
	}
}
