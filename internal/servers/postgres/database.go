package postgres

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/internal/servers/process"
)

// shared is the server of this program's tests.
var shared process.Singleton[*sharedServer]

// sharedServer is a server with a pool of connections for creating databases and schemas: opening a connection takes longer than
// creating a schema.
type sharedServer struct {
	url   string
	admin *pgxpool.Pool
	stop  func()
}

// Stop closes the pool, and stops the server unless it was named by Env.
func (s *sharedServer) Stop() {
	s.admin.Close()
	s.stop()
}

// Main runs the tests of a package and then calls Stop. TestMain calls it.
func Main(m *testing.M) {
	defer Stop()
	m.Run() // the program exits with its code when TestMain returns
}

// Stop stops the shared server if one was started. A TestMain that does not call Main calls Stop at its end.
func Stop() { shared.Stop() }

// Database returns the URL of a new, empty database, which is dropped when t ends.
func Database(t testing.TB) string {
	t.Helper()
	s, name := get(t), newName()
	s.run(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { s.run(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	u := s.parse(t)
	u.Path = "/" + name
	return u.String()
}

// Schema returns the URL of a new, empty schema, which is dropped when t ends. It is cheaper than a Database.
func Schema(t testing.TB) string {
	t.Helper()
	s, name := get(t), newName()
	s.run(t, "CREATE SCHEMA "+name)
	t.Cleanup(func() { s.drop(t, name) })
	return s.schemaURL(t, name)
}

func newName() string { return "annals_" + strings.ToLower(rand.Text()[:12]) }

func (s *sharedServer) schemaURL(t testing.TB, name string) string {
	u := s.parse(t)
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

func (s *sharedServer) drop(t testing.TB, schema string) { s.run(t, "DROP SCHEMA "+schema+" CASCADE") }

func get(t testing.TB) *sharedServer {
	t.Helper()
	s, err := shared.Get(func() (*sharedServer, error) {
		s := &sharedServer{url: os.Getenv(Env), stop: func() {}}
		if s.url == "" {
			started, err := Start(t.Context())
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

func (s *sharedServer) parse(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatalf("%s is not a URL", Env)
	}
	return u
}

// run executes sql, also when t's context has ended, because it serves cleanups.
func (s *sharedServer) run(t testing.TB, sql string) {
	t.Helper()
	if _, err := s.admin.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
		t.Fatal(err)
	}
}
