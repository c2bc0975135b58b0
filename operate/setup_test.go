package operate_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// withSetups is the config of a tool for all stores.
var withSetups = operate.Config{
	Stores: annals.Openers{"sqlite": sqlitestore.Options{CreateTables: new(false)}.OpenURL, "postgres": pgstore.Options{}.OpenURL,
		"dynamodb": dynamostore.Options{}.OpenURL, "mem": memstore.Options{}.OpenURL},
	Setups: operate.Setups{"sqlite": sqlitestore.Options{}.SetupURL, "postgres": pgstore.Options{}.SetupURL, "dynamodb": dynamostore.Options{}.SetupURL},
}

// On each store and layout: nothing is there, the doctor and the schema say so, apply creates it after --yes, and then all is well.
func TestSchemaAndDoctor(t *testing.T) {
	t.Parallel()
	own := rand.Text()
	tables := func(layout, parameters string) string {
		return "dynamodb:?layout=" + layout + "&region=us-east-1&endpoint=" + url.QueryEscape(dynamo.Endpoint(t)) + strings.ReplaceAll(parameters, "=", "="+own+layout)
	}
	for name, address := range map[string]string{
		"sqlite":       "sqlite:" + t.TempDir() + "/all.db",
		"postgres":     postgres.Schema(t),
		"pekko":        postgres.Schema(t) + "&timestamp_offset=projection_timestamp_offset_store",
		"commit":       tables("commit", "&table=") + "&index=slices",
		"commit plain": tables("commit", "&table=p"),
		"j5ik2o":       tables("j5ik2o", "&journal=j&snapshot=s&state=d"),
		"akka":         tables("akka", "&journal=j&snapshot=s"),
		"akka0":        tables("akka0", "&table="),
		"esa":          tables("esa", "&journal=j&snapshot=s") + "&shards=8",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				args   string
				status int
				code   string
			}{
				{"schema show", 0, ""}, {"schema show --format cobol", 4, "unsupported"},
				{"schema pending", 1, "pending"}, {"schema diff", 1, "refused"}, {"doctor", 1, "refused"},
				{"schema apply", 0, "dry-run"}, {"schema apply --dry-run", 0, "dry-run"}, {"schema apply --dry-run --yes", 3, "usage"},
				{"schema pending", 1, "pending"},
				{"schema apply --yes", 0, ""}, {"schema apply --yes", 0, "nothing"}, {"schema apply", 0, "nothing"},
				{"schema pending", 0, "nothing"}, {"schema diff", 0, "well"}, {"doctor", 0, "well"}, {"doctor x", 3, "usage"},
			} {
				args := append(strings.Fields(c.args), "--store", address)
				o := runWith(t.Context(), withSetups, append(args, "--json")...)
				if _, code := parsed(t, o); o.status != c.status || code != c.code {
					t.Fatalf("%s: status %d, code %q, want %d, %q: %s", c.args, o.status, code, c.status, c.code, o.text)
				}
			}
			if o := runWith(t.Context(), withSetups, "doctor", "--store", address); o.status != 0 || !strings.Contains(o.text, "note     ") {
				t.Errorf("%+v", o)
			}
		})
	}
	for _, args := range []string{"doctor", "schema show", "schema diff"} {
		o := runWith(t.Context(), withSetups, append(strings.Fields(args), "--store", "mem:", "--json")...)
		if _, code := parsed(t, o); o.status != 4 || code != "unsupported" {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// A server that does not answer is a failure of the store, not a finding, and no password is told.
func TestDoctorWithoutServer(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"doctor", "schema diff", "schema apply --yes"} {
		o := runWith(t.Context(), withSetups, append(strings.Fields(args), "--store", "postgres://nobody:s3cret-word@127.0.0.1:1/none?connect_timeout=2")...)
		if o.status != 4 || strings.Contains(o.text+o.errors, "s3cret-word") {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// The guide has what the doctor says to a role that may only read.
func TestDoctorOfAReader(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	if o := runWith(t.Context(), withSetups, "schema", "apply", "--yes", "--store", at); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	schema, role := u.Query().Get("search_path"), "reader_"+strings.ToLower(rand.Text()[:12])
	execute := func(ctx context.Context, text string) {
		t.Helper()
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	execute(t.Context(), fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA %[2]s TO %[1]s; GRANT SELECT ON ALL TABLES IN SCHEMA %[2]s TO %[1]s", role, schema))
	t.Cleanup(func() {
		execute(context.WithoutCancel(t.Context()), fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", role))
	})
	u.User = url.UserPassword(role, "x")
	o := runWith(t.Context(), withSetups, "doctor", "--store", u.String())
	guide, err := os.ReadFile("../docs/guide/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "may only read, of a table on PostgreSQL:\n\n```\n")
	text, _, _ = strings.Cut(text, "```")
	if o.status != 1 || text == "" || !strings.Contains(strings.ReplaceAll(o.text, role, "reader"), text) {
		t.Errorf("the guide has %q, the doctor says %+v", text, o)
	}
}

// found is a Setup that has found something.
type found struct{ findings []ability.Finding }

func (f found) Schema(format string) (string, error)                  { return "", fmt.Errorf("no format %q", format) }
func (f found) Pending(context.Context) ([]string, error)             { return nil, nil }
func (f found) Migrate(context.Context) ([]string, error)             { return nil, errors.New("no") }
func (f found) Examine(context.Context) ([]ability.Finding, error)    { return f.findings, nil }
func (f found) Close() error                                          { return nil }
func (f found) open(context.Context, *url.URL) (ability.Setup, error) { return f, nil }
func finding(severity ability.Severity, schema bool, text string) ability.Finding {
	return ability.Finding{Code: "c", Severity: severity, Schema: schema, Found: text, Means: text, Do: text}
}

// The exit status is that of the gravest finding, and the gravest comes first.
func TestSeverities(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for _, c := range []struct {
		args     string
		findings []ability.Finding
		status   int
		code     string
	}{
		{"doctor", nil, 0, "well"},
		{"doctor", []ability.Finding{finding(ability.Note, false, "a")}, 0, "well"},
		{"doctor", []ability.Finding{finding(ability.Note, true, "a")}, 0, "well"},
		{"schema diff", []ability.Finding{finding(ability.Note, true, "a")}, 1, "schema"},
		{"schema diff", []ability.Finding{finding(ability.Problem, false, "a")}, 0, "well"},
		{"doctor", []ability.Finding{finding(ability.Problem, false, "a")}, 1, "problems"},
		{"doctor", []ability.Finding{finding(ability.Note, false, "z"), finding(ability.Problem, true, "b"), finding(ability.Refused, true, "a")}, 1, "refused"},
	} {
		k := config(s)
		k.Setups = operate.Setups{"mem": found{c.findings}.open}
		o := run(t, k, append(strings.Fields(c.args), "--json")...)
		if _, code := parsed(t, o); o.status != c.status || code != c.code {
			t.Errorf("%s of %+v: %+v", c.args, c.findings, o)
		}
		order := []int{strings.Index(o.text, `"found":"a"`), strings.Index(o.text, `"found":"b"`), strings.Index(o.text, `"found":"z"`)}
		if len(c.findings) == 3 && !slices.IsSorted(order) {
			t.Errorf("the order is %v: %s", order, o.text)
		}
	}
}
