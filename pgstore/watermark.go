package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// reportTime is how much time a session has to report a transaction that it has begun. It takes the time of the transaction when the
// statement has arrived, and reports that time a few instructions later, without waiting for anything.
const reportTime = time.Second

// Watermark is annals.Query. An event has the time at which its transaction began, or a later one, so nothing more appears before the start
// of the oldest transaction in the database. A session that cannot be seen may have any transaction within Options.Lateness: one of
// another role, without the rights of pg_read_all_stats; one that does not track activities; a prepared transaction; one of another node of
// YugabyteDB. Only a transaction that has written to the journal or a table of states holds the watermark back further than Options.Lateness, not a
// long query; a prepared one counts as begun Options.Lateness before it was prepared.
//
// A standby shows what the primary had committed when it committed the transaction that was replayed last, and when it began the last checkpoint
// that the standby knows. So there the watermark is Options.Lateness before both, by the clock of the primary, however late the standby is,
// and not after the standby's own time. A standby that is more than Options.Lateness behind what it has received is Result.Warning.
//
// When the clock of the server jumps forward, the watermark does not for a while.
//
// Logical replication stores events any time after their own, so Watermark returns ErrUnsupported while the journal or a table of states has a subscription,
// also a disabled one: it brings later what was written meanwhile.
//
// Within a transaction the server shows the sessions as they were when the transaction asked first. So the watermark is before the start of
// the own transaction, which is the statement's elsewhere.
//
// A transaction that has been open for longer is Result.Warning, and is logged when the first is found and when one is found after there
// were none.
func (q query) Watermark(ctx context.Context) (at time.Time, err error) {
	var oldest, replayed *time.Time
	var now time.Time
	var subscription *string
	asked := time.Now()
	err = q.reader(ctx).QueryRow(ctx, q.s.sql.watermark).Scan(&at, &oldest, &replayed, &now, &subscription)
	if err != nil {
		return time.Time{}, err
	}
	ahead, jumped := q.s.clock.Ahead("the clock of the server", now, asked)
	var behind error
	if replayed != nil && now.Sub(*replayed) > q.s.options.Lateness {
		behind = fmt.Errorf("the standby is behind the primary by %v: followers see what it has replayed", now.Sub(*replayed).Round(time.Second))
	}
	driver.Count(ctx, annals.Result{Warning: errors.Join(q.s.warnOfAge(ctx, oldest, now), behind, jumped)})
	if subscription != nil {
		return time.Time{}, &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("events and states cannot be followed, because the subscription %q stores them "+
			"long after their time: follow them where they are written, or drop the subscription when they are written here", *subscription)}
	}
	return at.Add(-ahead), nil
}

// watermark is the statement of Watermark. It has no parameters: with some, the server would plan it anew each time, which takes several times as
// long as to execute it.
func (s *backend) watermark() string {
	before := func(d time.Duration) string { return fmt.Sprintf("- %d * interval '1 microsecond'", d.Microseconds()) }
	lateness := before(s.options.Lateness)
	earliest := "clock_timestamp() " + lateness
	if s.yugabyte {
		return "SELECT " + earliest + ", NULL::timestamptz, NULL::timestamptz, clock_timestamp(), NULL"
	}
	names := []string{literal(s.journal.name)}
	for _, t := range s.stateTables("") {
		names = append(names, literal(t.name))
	}
	const prepared = `(SELECT min(prepared) FROM pg_prepared_xacts WHERE database = current_database())`
	listed := `unnest(ARRAY[` + strings.Join(names, ", ") + `]) name`
	followed := `(SELECT to_regclass(name) FROM ` + listed + `)`
	writer := `CASE WHEN min(xact_start) < ` + earliest + ` THEN
		(SELECT min(xact_start) FROM pg_stat_activity JOIN pg_locks USING (pid)
			WHERE datname = current_database() AND relation IN ` + followed + ` AND mode = 'RowExclusiveLock') END`
	return `
		SELECT CASE WHEN pg_is_in_recovery()
			THEN least(clock_timestamp(), greatest(pg_last_xact_replay_timestamp(), (SELECT checkpoint_time FROM pg_control_checkpoint()))) ` + lateness + `
			WHEN ` + prepared + ` IS NOT NULL OR bool_or(backend_start IS NULL OR state = 'disabled')
			THEN least(` + earliest + `, ` + prepared + ` ` + lateness + `, ` + writer + `)
			ELSE least(greatest(` + earliest + `, least(transaction_timestamp() ` + before(reportTime) + `, min(xact_start))), ` + writer + `) END,
			least(min(xact_start), ` + prepared + `),
			CASE WHEN pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn() THEN pg_last_xact_replay_timestamp() END, clock_timestamp(),
			(SELECT min(subname) FROM pg_subscription JOIN pg_subscription_rel ON srsubid = oid
				WHERE srrelid IN ` + followed + ` OR srrelid IN (SELECT relid FROM ` + listed + `, pg_partition_tree(to_regclass(name))))
		FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type IS DISTINCT FROM 'autovacuum worker'`
}

// warnOfAge returns a warning if the oldest transaction began more than Options.Lateness before now, and logs the first of several.
func (s *backend) warnOfAge(ctx context.Context, oldest *time.Time, now time.Time) error {
	late := oldest != nil && now.Sub(*oldest) > s.options.Lateness
	if before := s.late.Swap(late); !late {
		return nil
	} else if before {
		return errLate
	}
	slog.Default().WarnContext(ctx, "annals: "+errLate.Error(), slog.Time("began", *oldest), slog.Duration("lateness", s.options.Lateness))
	return errLate
}

var errLate = errors.New("a transaction in the database has been open for longer than Options.Lateness: " +
	"followers wait for its end if it has stored events, and may skip them if it stores some later")
