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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/internal/child"
	"github.com/annals-go/annals/internal/pgserver"
)

// own is the server of this process, started when a test first asks for it.
var own child.One[*server]

// server is a server, and connections to it on which databases and schemas are made: a new connection for each would cost more
// than what is made.
type server struct {
	url   string
	admin *pgxpool.Pool
	stop  func()
}

// Stop stops the server if it is ours.
func (s *server) Stop() {
	s.admin.Close()
	s.stop()
}

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
	s, name := get(t), newName()
	s.run(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { s.run(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	u := s.parse(t)
	u.Path = "/" + name
	return u.String()
}

// Schema is the URL of a new, empty schema, dropped when t ends: cheaper than a Database.
func Schema(t testing.TB) string {
	t.Helper()
	s, name := get(t), newName()
	s.run(t, "CREATE SCHEMA "+name)
	t.Cleanup(func() { s.drop(t, name) })
	return s.schemaURL(t, name)
}

func newName() string { return "annals_" + strings.ToLower(rand.Text()[:12]) }

func (s *server) schemaURL(t testing.TB, name string) string {
	u := s.parse(t)
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

func (s *server) drop(t testing.TB, schema string) { s.run(t, "DROP SCHEMA "+schema+" CASCADE") }

func get(t testing.TB) *server {
	t.Helper()
	s, err := own.Get(func() (*server, error) {
		s := &server{url: os.Getenv(pgserver.Env), stop: func() {}}
		if s.url == "" {
			started, err := pgserver.Start(t.Context())
			if err != nil {
				return nil, err
			}
			s.url, s.stop = started.URL, started.Stop
		}
		var err error
		s.admin, err = pgxpool.New(context.Background(), s.url)
		return s, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) parse(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatalf("%s is not a URL", pgserver.Env)
	}
	return u
}

// run runs also when t's context has ended: it cleans up.
func (s *server) run(t testing.TB, sql string) {
	t.Helper()
	if _, err := s.admin.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
		t.Fatal(err)
	}
}
