package pgstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

func setUp(t *testing.T, at string, o pgstore.Options) ability.Setup {
	t.Helper()
	s, err := o.SetupURL(t.Context(), parsed(t, at))
	return closedAtEnd(t, s, err)
}

// newSetup is setUp with a pool in place of a URL.
func newSetup(t *testing.T, at string, o pgstore.Options) ability.Setup {
	t.Helper()
	s, err := pgstore.NewSetup(pool(t, at), o)
	return closedAtEnd(t, s, err)
}

func closedAtEnd(t *testing.T, s ability.Setup, err error) ability.Setup {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// examined are the findings, without notes if only is set.
func examined(t *testing.T, at string, o pgstore.Options, only ...ability.Severity) (all []ability.Finding) {
	t.Helper()
	if o.Lateness == 0 {
		o.Lateness = time.Hour // transactions of other tests on the server do not count
	}
	found, err := setUp(t, at, o).Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Code == "" || f.Found == "" || f.Severity == ability.Problem && (f.Means == "" || f.Do == "") {
			t.Errorf("%+v", f)
		}
		if len(only) == 0 || slices.Contains(only, f.Severity) {
			all = append(all, f)
		}
	}
	return all
}

func codesOf(found []ability.Finding) (codes []string) {
	for _, f := range found {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// What Open refuses, Examine finds, and Open refuses nothing else. What a rule breaks besides, Examine finds, too.
func TestExamineFindsWhatOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql   string // after the creation of the tables
		url   string
		codes string // of what is refused and of problems
	}{
		"nothing":       {"", "", ""},
		"tables":        {"DROP TABLE snapshot, event_journal", "", "index table"},
		"columns":       {"ALTER TABLE event_journal DROP COLUMN tags, DROP COLUMN writer, ALTER seq_nr TYPE int", "", "column type"},
		"key":           {"ALTER TABLE event_journal DROP CONSTRAINT event_journal_pkey", "", "key"},
		"unlogged":      {"ALTER TABLE snapshot SET UNLOGGED", "", "unlogged"},
		"partitions":    {"CREATE TABLE event_journal_0 (LIKE event_journal)", "", "partitions"},
		"newer":         {"COMMENT ON TABLE annals_projection_epoch IS 'annals schema version 99'", "", "newer-tables"},
		"older":         {"ALTER TABLE annals_projection_epoch DROP through_time", "", "older-tables"},
		"all at once":   {"COMMENT ON TABLE annals_projection_epoch IS 'annals schema version 99'; DROP TABLE snapshot; CREATE TABLE event_journal_0 (LIKE event_journal)", "default_transaction_read_only=on", "newer-tables partitions read-only table"},
		"index":         {"DROP INDEX event_journal_slice_idx", "", "index"},
		"another index": {"DROP INDEX event_journal_slice_idx; CREATE INDEX event_journal_slice_idx ON event_journal (slice)", "", "index"},
		"optional":      {"DROP TABLE annals_projection_epoch; ALTER TABLE durable_state DROP COLUMN write_ids", "", ""},
		"commits":       {"", "synchronous_commit=off", ""},
		"connections":   {"", "pool_max_conns=1000", "connections"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := postgres.Schema(t)
			openAt(t, at, pgstore.Options{CreateTables: true})
			if c.sql != "" {
				run(t, at, c.sql)
			}
			if c.url != "" {
				at = with(t, at, c.url)
			}
			wrong := examined(t, at, pgstore.Options{}, ability.Refused, ability.Problem)
			if codes := strings.Join(codesOf(wrong), " "); codes != c.codes {
				t.Errorf("found %q, want %q: %+v", codes, c.codes, wrong)
			}
			s, err := pgstore.Open(t.Context(), pool(t, at), pgstore.Options{})
			refused := slices.DeleteFunc(wrong, func(f ability.Finding) bool { return f.Severity != ability.Refused })
			if (err != nil) != (len(refused) > 0) {
				t.Fatalf("Open says %v, and Examine finds %+v", err, refused)
			}
			if err == nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			rest := fmt.Sprint(err)
			for _, f := range refused {
				rest = strings.ReplaceAll(rest, f.Found, "")
			}
			for line := range strings.Lines(rest) {
				if strings.Contains(line, "table \"") || strings.Contains(line, "column") {
					t.Errorf("Open refuses what Examine does not find: %s", line)
				}
			}
		})
	}
}

// A role without rights is told what it lacks, as a statement that grants it; a role that does not see other sessions is told, too.
func TestExamineRights(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	openAt(t, at, pgstore.Options{CreateTables: true})
	role, as := asRole(t, at)
	run(t, at, fmt.Sprintf("GRANT SELECT ON ALL TABLES IN SCHEMA %s TO %s", parsed(t, at).Query().Get("search_path"), role))
	found := examined(t, as, pgstore.Options{})
	for _, f := range found {
		if f.Severity == ability.Refused {
			run(t, at, f.Do)
		}
	}
	if codes := codesOf(found); !slices.Contains(codes, "right") || !slices.Contains(codes, "sessions") {
		t.Errorf("found %q", codes)
	}
	if wrong := examined(t, as, pgstore.Options{}, ability.Refused, ability.Problem); len(wrong) != 0 {
		t.Errorf("after what was to be done: %+v", wrong)
	}
	run(t, at, "ALTER TABLE event_journal ENABLE ROW LEVEL SECURITY")
	if codes := codesOf(examined(t, as, pgstore.Options{}, ability.Refused, ability.Problem)); !slices.Equal(codes, []string{"row-security"}) {
		t.Errorf("found %q", codes)
	}
}

// An open transaction of another program is compared with the lateness that is claimed.
func TestExamineLateness(t *testing.T) {
	t.Parallel()
	at := postgres.Database(t)
	openAt(t, at, pgstore.Options{CreateTables: true})
	tx, err := pool(t, at).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "INSERT INTO snapshot SELECT 0, 'T', 'T|1', 1, now(), 1, 1, '', ''"); err != nil {
		t.Fatal(err)
	}
	o := pgstore.Options{WriteTimeout: time.Minute}
	if wrong := codesOf(examined(t, at, o, ability.Problem)); slices.Contains(wrong, "long-transaction") {
		t.Error("a transaction of a moment is long")
	}
	o.WriteTimeout, o.Lateness = time.Millisecond, 2*time.Millisecond
	if wrong := codesOf(examined(t, at, o, ability.Problem)); !slices.Contains(wrong, "long-transaction") {
		t.Errorf("found %q", wrong)
	}
}

// Behind a pooler the pooler is found, and a setting that it leaves out is refused.
func TestExamineBehindAPooler(t *testing.T) {
	t.Parallel()
	p, at := pooledDatabase(t, "ignore_startup_parameters = search_path")
	through := p.URL(t, at)
	found := examined(t, through, pgstore.Options{})
	if !slices.Contains(codesOf(found), "pooler") || slices.ContainsFunc(found, func(f ability.Finding) bool { return f.Severity == ability.Refused }) {
		t.Errorf("%+v", found)
	}
	if wrong := examined(t, with(t, through, "search_path=elsewhere"), pgstore.Options{}, ability.Refused); !slices.Contains(codesOf(wrong), "pooler") {
		t.Errorf("%+v", wrong)
	}
}

// What Pending says, Migrate runs, and afterwards Examine finds nothing.
func TestSetupMigrates(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	for name, o := range map[string]pgstore.Options{"Akka's names": {}, "Pekko's names": {Tables: pgstore.PekkoTables()}} {
		s := setUp(t, at, o)
		script, err := s.Schema("")
		if err != nil || !strings.Contains(script, "CREATE TABLE") {
			t.Errorf("%s: %q, %v", name, script, err)
		}
		_, err = s.Schema("terraform")
		wantKind(t, err, annals.ErrUnsupported)
		pending, err := s.Pending(t.Context())
		if err != nil || len(pending) == 0 {
			t.Errorf("%s: %q, %v", name, pending, err)
		}
		done, err := s.Migrate(t.Context())
		if err != nil || !slices.Equal(done, pending) {
			t.Errorf("%s: %q, %v, want %q", name, done, err, pending)
		}
		if pending, err := s.Pending(t.Context()); err != nil || len(pending) > 0 {
			t.Errorf("%s: %q, %v", name, pending, err)
		}
		if wrong := examined(t, at, o, ability.Refused, ability.Problem); len(wrong) > 0 {
			t.Errorf("%s: %+v", name, wrong)
		}
	}
	_, err := setUp(t, "postgres://nobody:hidden@127.0.0.1:1/none?connect_timeout=2", pgstore.Options{}).Examine(t.Context())
	wantKind(t, err, annals.ErrUnavailable)
}
