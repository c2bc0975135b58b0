package pgstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// CheckHealth implements ability.HealthChecker.
func (v *view) CheckHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.s.answerTime()) // the caller's pool has no limit of its own
	defer cancel()
	driver.Count(ctx, annals.Result{Requests: 2})
	wrong, err := v.s.checkRights(ctx)
	if err != nil {
		return err
	}
	if wrong != nil {
		return invalid(wrong)
	}
	var standby, readOnly, found bool
	var comment string
	err = v.s.groupPool(ctx).QueryRow(ctx, v.s.fill(`
		SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', EXISTS (SELECT FROM "event_journal" WHERE persistence_id = ''),
			coalesce(obj_description(to_regclass($1), 'pg_class'), '')`), v.s.epoch.name).
		Scan(&standby, &readOnly, &found, &comment)
	switch {
	case err != nil:
		return err
	case v.s.options.ReadOnly:
	case standby:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: errStandby}
	case readOnly:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: errRead}
	}
	return newer(comment)
}
