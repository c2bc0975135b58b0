package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
)

// Forget is annals.Forgetter; ErrUnsupported where the layout's tables cannot tell when something was deleted, and
// Capabilities do not claim it.
func (s *Store) Forget(ctx context.Context, f annals.Forgetting) (done bool, err error) {
	if s.offer.Forget == nil {
		return false, &annals.Error{Op: "forget", ID: f.ID, Kind: annals.ErrUnsupported}
	}
	v := s.view()
	if err := f.Validate(v.limits()); err != nil {
		return false, err
	}
	err = v.call(ctx, annals.Call{Op: "forget", ID: f.ID}, !f.DryRun, func(ctx context.Context) (err error) {
		done, err = s.offer.Forget(ctx, s.engine, f)
		return err
	})
	return done, err
}
