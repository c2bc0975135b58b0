package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Open names all rights that the role lacks, of every table that the store uses, and CheckHealth those that it lost since.
func TestRights(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	o := pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"Thing": {Table: "thing"}}}
	openAt(t, at, pgstore.Options{CreateTables: true, StateTypes: o.StateTypes})
	role, as := asRole(t, at)
	run(t, at, "GRANT SELECT ON event_journal, snapshot TO "+role+"; GRANT SELECT, INSERT, UPDATE ON durable_state TO "+role)
	_, err := pgstore.Open(t.Context(), pool(t, as), o)
	wantKind(t, err, annals.ErrInvalid)
	for _, want := range []string{
		`table "event_journal": the role "` + role + `" has no right to INSERT, UPDATE, DELETE`, `table "snapshot": the role "` + role + `" has no right to INSERT, UPDATE, DELETE`,
		`table "durable_state": the role "` + role + `" has no right to DELETE`, `table "thing": the role "` + role + `" has no right to SELECT, INSERT, UPDATE, DELETE`,
		`table "akka_projection_timestamp_offset_store": the role "` + role + `" has no right to SELECT, INSERT, DELETE`,
		`table "annals_projection_epoch": the role "` + role + `" has no right to SELECT, INSERT, UPDATE, DELETE`,
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v\ndoes not say %s", err, want)
		}
	}
	run(t, at, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+parsed(t, at).Query().Get("search_path")+` TO `+role)
	run(t, at, `REVOKE UPDATE ON akka_projection_timestamp_offset_store FROM `+role)
	s := openAt(t, as, o)
	if err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); err != nil {
		t.Error(err)
	}
	run(t, at, "REVOKE INSERT ON durable_state FROM "+role+"; DROP TABLE annals_projection_epoch")
	err = s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context())
	wantKind(t, err, annals.ErrInvalid)
	for _, want := range []string{`table "durable_state": the role "` + role + `" has no right to INSERT`, `no table "annals_projection_epoch"`} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v\ndoes not say %s", err, want)
		}
	}
}

// CheckHealth writes nothing and notices a session that has become read-only, a server that does not answer, and a store that is closed.
func TestHealth(t *testing.T) {
	t.Parallel()
	u := postgres.Database(t)
	p := newProxy(t, u)
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true})
	for range 3 {
		if err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := count(t, u, "SELECT count(*) FROM event_journal"); n != 0 {
		t.Errorf("%d rows after checks of health", n)
	}
	setReadOnly := func(value string) {
		operator := with(t, u, "default_transaction_read_only=off")
		run(t, operator, "ALTER DATABASE "+strings.TrimPrefix(parsed(t, u).Path, "/")+" SET default_transaction_read_only = "+value)
		run(t, operator, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
	until := func(what string, good func(err error) bool) {
		t.Helper()
		var err error
		for range 100 { // connections that were ended are noticed one by one
			if err = s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); good(err) {
				return
			}
		}
		t.Errorf("%s: got %v", what, err)
	}
	setReadOnly("on")
	until("read-only", func(err error) bool {
		return annals.SafeToRetry(err) && strings.Contains(fmt.Sprint(err), "default_transaction_read_only")
	})
	setReadOnly("off")
	for ok := false; !ok; { // attempts to connect are spaced
		ok = s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()) == nil
	}
	restart := stop(p)
	wantKind(t, s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()), annals.ErrUnavailable)
	restart()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wantKind(t, s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()), annals.ErrClosed)
}
