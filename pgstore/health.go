package pgstore

import (
	"context"

	"github.com/annals-go/annals"
)

// CheckHealth implements annals.HealthChecker with two statements: one over the caller's pool, which asks for tables and rights,
// and one over a connection for writes, which reads the journal and asks whether the session can write.
func (s *Store) CheckHealth(ctx context.Context) (err error) {
	c, err := view{s: s}.begin(ctx, "check health", "", 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests = 2
	wrong, err := s.checkRights(c.ctx)
	if err != nil {
		return err
	}
	if wrong != nil {
		return invalid("check health", "", wrong)
	}
	var standby, readOnly bool
	var found bool
	if err := s.group.QueryRow(c.ctx, s.fill(`SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', EXISTS (SELECT FROM {journal} WHERE persistence_id = '')`)).Scan(&standby, &readOnly, &found); err != nil {
		return err
	}
	switch {
	case standby:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: errStandby}
	case readOnly:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: errRead}
	}
	return nil
}
