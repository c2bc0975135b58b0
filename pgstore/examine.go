package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/findings"
)

// mostApart is the difference of two clocks that is worth a word: times of events are the server's, and programs compare them with their own.
const mostApart = time.Second

// examine calls what Open calls, without an end at the first refusal, and looks at what Open does not look at.
func (s *backend) examine(ctx context.Context) (found findings.List, err error) {
	refuse := func(code string, check func(context.Context) error) {
		if err == nil {
			err = found.Refused(check(ctx), code)
		}
	}
	look := func(check func(context.Context, *findings.List) error) {
		if err == nil {
			err = check(ctx, &found)
		}
	}
	refuse("connection", s.findPooler)
	look(s.examineSession)
	refuse("partitions", s.refusePartitions)
	refuse("newer-tables", s.refuseNewer)
	refuse("tables", func(ctx context.Context) error {
		wrong, err := s.verify(ctx)
		if err == nil && wrong != nil {
			err = invalid(wrong)
		}
		return err
	})
	look(s.examineTables)
	look(s.examineIndexes)
	look(s.examineFollowers)
	look(s.examineConnections)
	if err == nil {
		found.Add(ability.Note, "not-checked", "rights were asked for, not tried: what triggers and constraints of your own refuse shows only when events are written", "", "")
	}
	return found, err
}

// examineSession looks at the settings of the server, and at its clock.
func (s *backend) examineSession(ctx context.Context, found *findings.List) error {
	var version, readOnly, standby, fsync, commits, fullPages string
	var now time.Time
	asked := time.Now()
	err := s.reads.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('transaction_read_only'), left(pg_is_in_recovery()::text, 1),
		current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'), clock_timestamp()`).
		Scan(&version, &readOnly, &standby, &fsync, &commits, &fullPages, &now)
	if err != nil {
		return err
	}
	answered := time.Now()
	found.Add(ability.Note, "server", "PostgreSQL "+version, "", "")
	for _, fault := range s.sessionFaults([]string{readOnly, standby, fsync}) {
		if err := found.Refused(fault, "session"); err != nil {
			return err
		}
	}
	if commits == "off" {
		if s.options.NonDurable {
			found.Add(ability.Problem, "synchronous-commit", "synchronous_commit is off, and Options.NonDurable accepts it", "a crash of the server loses acknowledged writes", "switch it on, or leave out NonDurable")
		} else {
			found.Add(ability.Note, "synchronous-commit", "synchronous_commit is off, and the store switches it on for its writes", "", "")
		}
	}
	if fsync != "on" && s.options.NonDurable {
		found.Add(ability.Problem, "fsync", "fsync is off, and Options.NonDurable accepts it", "a crash of the machine loses acknowledged writes, and can damage the database", "switch it on")
	}
	if fullPages != "on" {
		found.Add(ability.Problem, "full-page-writes", "full_page_writes is off", "a crash of the machine can damage the database, unless the file system writes pages whole", "switch it on, unless the file system is one of these, such as ZFS")
	}
	if s.pooled {
		found.Add(ability.Note, "pooler", "there is a pooler in front of the server", "a write takes three requests, and watches are woken every second", "let the pooler have more sessions than transactions run at once")
	}
	found.Clock(now, asked, answered, mostApart, "times of events are the server's: lags are shown wrong by so much, and timers of processes fire so much earlier or later")
	return nil
}

// examineTables looks at what existing tables may lack, and at row security.
func (s *backend) examineTables(ctx context.Context, found *findings.List) error {
	for t, means := range map[*table]string{s.offset: "the store does not claim Offsets: projections keep their positions elsewhere", s.epoch: "projections cannot keep their positions and leases in this store"} {
		if !t.exists() {
			found.Differs(ability.Note, "table", "there is no table "+t.name, means, "Migrate creates it")
		}
	}
	optional := map[string]string{writeIDs: "IdempotentState", "db_timestamp": "SnapshotQueries", "tags": "SnapshotQueries"}
	for _, name := range metaNames {
		optional[name] = "StateMetadata"
	}
	tables := []*table{s.journal, s.snapshot, s.offset, s.epoch}
	for _, t := range s.stateTables("") {
		tables = append(tables, t.table)
	}
	var names []string
	for _, t := range tables {
		for _, column := range t.shape.optional {
			if t.exists() && !t.has(column) {
				do := "Migrate adds it"
				if t == s.snapshot {
					do = "add it, if snapshots are to be followed"
				}
				found.Differs(ability.Note, "column", fmt.Sprintf("table %s has no column %q", t.name, column), "the store does not claim "+optional[column], do)
			}
		}
		if t.exists() {
			names = append(names, t.name)
		}
	}
	rows, err := s.reads.Query(ctx, `SELECT name FROM unnest($1::text[]) name WHERE row_security_active(to_regclass(name))`, names)
	if err != nil {
		return err
	}
	hidden, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range hidden {
		found.Add(ability.Problem, "row-security", "table "+name+" has row security for this role", "rows that a policy hides look like events that were never written", "ALTER TABLE "+name+" DISABLE ROW LEVEL SECURITY, or use a role with BYPASSRLS")
	}
	return err
}

// examineIndexes compares the indexes, which Open does not look at.
func (s *backend) examineIndexes(ctx context.Context, found *findings.List) error {
	indexes := slices.DeleteFunc(s.objects(), func(o object) bool { return o.index == "" })
	var names, ends []string
	for _, o := range indexes {
		names, ends = append(names, o.name), append(ends, o.index)
	}
	rows, err := s.reads.Query(ctx, `SELECT nr::int - 1, i.indexrelid IS NOT NULL, coalesce(i.indisvalid, FALSE), coalesce(right(pg_get_indexdef(i.indexrelid), length(o.ends)) = o.ends, FALSE)
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY o (name, ends, nr) LEFT JOIN pg_index i ON i.indexrelid = to_regclass(o.name) ORDER BY nr`, names, ends)
	if err != nil {
		return err
	}
	var nr int
	var exists, valid, same bool
	_, err = pgx.ForEachRow(rows, []any{&nr, &exists, &valid, &same}, func() error {
		o := indexes[nr]
		concurrently := strings.Replace(o.ddl, "CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
		const slow = "queries and projections read the whole table"
		switch {
		case !exists:
			found.Differs(ability.Problem, "index", "there is no index "+o.name, slow, "Migrate creates it; on a large table run "+concurrently)
		case !valid:
			found.Differs(ability.Problem, "index", "the index "+o.name+" is not valid: making it has failed, or is under way", slow, "DROP INDEX "+o.name+"; "+concurrently)
		case !same:
			found.Differs(ability.Problem, "index", "the index "+o.name+" is not "+o.index, slow, "DROP INDEX "+o.name+"; "+concurrently)
		}
		return nil
	})
	return err
}

// examineFollowers looks at what makes events visible late: it compares Options.Lateness with the transactions that are open.
func (s *backend) examineFollowers(ctx context.Context, found *findings.List) error {
	if !s.journal.exists() || slices.ContainsFunc(s.stateTables(""), func(t *stateTable) bool { return !t.exists() }) {
		found.Add(ability.Note, "not-checked", "lateness was not checked, because tables are missing", "", "")
		return nil
	}
	var at, now time.Time
	var oldest, replayed *time.Time
	var subscription *string
	if err := s.reads.QueryRow(ctx, s.watermark()).Scan(&at, &oldest, &replayed, &now, &subscription); err != nil {
		return err
	}
	claimed, behind := s.options.Lateness, now.Sub(at).Round(time.Millisecond)
	found.Add(ability.Note, "lateness", fmt.Sprintf("claimed lateness: %v; followers see everything up to %v ago", claimed, behind), "", "")
	if oldest != nil && now.Sub(*oldest) > claimed {
		found.Add(ability.Problem, "long-transaction", fmt.Sprintf("a transaction has been open for %v, and the claimed lateness is %v", now.Sub(*oldest).Round(time.Millisecond), claimed),
			"followers wait for its end if it has stored events, and may skip them if it stores some later", "end it (pg_stat_activity shows it), or set Options.Lateness to the longest transaction of all programs that write events")
	}
	if subscription != nil {
		found.Add(ability.Problem, "subscription", fmt.Sprintf("the subscription %q stores events long after their time", *subscription), "events and states cannot be followed: Watermark is ErrUnsupported", "follow them where they are written, or drop the subscription when they are written here")
	}
	if s.yugabyte {
		return nil
	}
	var sees bool
	var prepared int
	err := s.reads.QueryRow(ctx, `SELECT pg_has_role('pg_read_all_stats', 'USAGE'), (SELECT count(*)::int FROM pg_prepared_xacts WHERE database = current_database())`).Scan(&sees, &prepared)
	if err == nil && !sees {
		found.Add(ability.Note, "sessions", "the role does not see the sessions of other roles", fmt.Sprintf("while there are some in the database, followers are %v behind", claimed), "GRANT pg_read_all_stats to the role")
	}
	if err == nil && prepared > 0 {
		found.Add(ability.Problem, "prepared", fmt.Sprintf("prepared transactions: %d", prepared), "followers wait for their end if they have stored events", "COMMIT PREPARED or ROLLBACK PREPARED those that nobody ends")
	}
	return err
}

// examineConnections compares how many connections are left with how many a store may open.
func (s *backend) examineConnections(ctx context.Context, found *findings.List) error {
	if s.pooled || s.yugabyte {
		return nil
	}
	var left int
	var enough bool
	err := s.reads.QueryRow(ctx, connectionsLeft).Scan(&left, &enough)
	if err != nil {
		return err
	}
	n := int(s.reads.Config().MaxConns)
	most := 2*n + 1
	if s.options.ReadOnly {
		most = n
	}
	severity, means, do := ability.Note, "", ""
	if left < most {
		severity, means, do = ability.Problem, "when more are needed, calls wait or fail", "raise max_connections or the limit of the role or database, lower pool_max_conns in the URL, or use a pooler"
	}
	found.Add(severity, "connections", fmt.Sprintf("connections left on the server: %d; a store opens up to %d", left, most), means, do)
	return nil
}
