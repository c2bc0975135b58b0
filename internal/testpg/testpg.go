// Package testpg gives tests a PostgreSQL server: the one that the environment variable ANNALS_POSTGRES names by URL, or
// a fresh one, started from the installed binaries in a temporary directory and stopped with the test process.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { testpg.Main(m) }
package testpg

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/child"
	"github.com/annals-go/annals/internal/pgserver"
)

// own is the server of this process, started when a test first asks for it.
var own child.One[*pgserver.Server]

// Main runs the tests of a package and stops the server that they started. TestMain calls it.
func Main(m *testing.M) {
	defer Stop()
	m.Run() // its code is the program's when TestMain returns
}

// Stop stops the server, if one was started: for a TestMain that does more than Main.
func Stop() { own.Stop() }

// Database is the URL of a new, empty database, dropped when t ends.
func Database(t testing.TB) string {
	t.Helper()
	server, name := serverURL(t), "annals_"+strings.ToLower(rand.Text()[:12])
	run(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { run(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u := parse(t, server)
	u.Path = "/" + name
	return u.String()
}

// Schema is the URL of a new, empty schema, dropped when t ends: cheaper than a Database.
func Schema(t testing.TB) string {
	t.Helper()
	server, name := serverURL(t), "annals_"+strings.ToLower(rand.Text()[:12])
	run(t, server, "CREATE SCHEMA "+name)
	t.Cleanup(func() { run(t, server, "DROP SCHEMA "+name+" CASCADE") })
	u := parse(t, server)
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

func serverURL(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(pgserver.Env); given != "" {
		return given
	}
	server, err := own.Get(func() (*pgserver.Server, error) { return pgserver.Start(t.Context()) })
	if err != nil {
		t.Fatal(err)
	}
	return server.URL
}

func parse(t testing.TB, server string) *url.URL {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s is not a URL", pgserver.Env)
	}
	return u
}

// run runs also when t's context has ended: it cleans up.
func run(t testing.TB, server, sql string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}
