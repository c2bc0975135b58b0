package pgstore_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// open is a store on empty tables of its own.
func open(tb testing.TB, o pgstore.Options) *pgstore.Store {
	tb.Helper()
	return openAt(tb, tables(tb, o), o)
}

// tables is the URL of empty tables, as Options.CreateTables makes them.
func tables(tb testing.TB, o pgstore.Options) string {
	tb.Helper()
	o = pgstore.Options{CreateTables: true, Tables: o.Tables, JSONB: o.JSONB}
	return postgres.Tables(tb, fmt.Sprintf("%+v", o), func(url string) {
		p := pool(tb, url)
		defer p.Close()
		s, err := pgstore.Open(tb.Context(), p, o)
		if err != nil {
			tb.Fatal(err)
		}
		if err := s.Close(); err != nil {
			tb.Fatal(err)
		}
	})
}

// openAt is a store on the tables that url leads to, closed when tb ends.
func openAt(tb testing.TB, url string, o pgstore.Options) *pgstore.Store {
	tb.Helper()
	s := openIn(tb, pool(tb, url), o)
	urls.Store(s, url)
	return s
}

// openTraced is a store on the tables that url leads to, with a pool that tells seen of its statements.
func openTraced(tb testing.TB, url string, seen pgx.QueryTracer, o pgstore.Options) *pgstore.Store {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	config.ConnConfig.Tracer = seen
	s, err := pgstore.Open(tb.Context(), poolOn(tb, config), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// openIn is a store with a pool, closed when tb ends.
func openIn(tb testing.TB, p *pgxpool.Pool, o pgstore.Options) *pgstore.Store {
	tb.Helper()
	s, err := pgstore.Open(tb.Context(), p, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// urls are where the open stores are: a second store on the data of one is opened there.
var urls urlMap

type urlMap struct{ sync.Map }

func (m *urlMap) of(s annals.Store) string {
	url, _ := m.Load(s)
	return url.(string)
}

func pool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	return poolOver(tb, url, func(conn net.Conn) net.Conn { return conn })
}

// poolOver is a pool whose network connections go through wrap.
func poolOver(tb testing.TB, url string, wrap func(net.Conn) net.Conn) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
	return poolOn(tb, config)
}

func poolOn(tb testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	tb.Helper()
	p, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func run(tb testing.TB, url, sql string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	if _, err := conn.Exec(tb.Context(), sql); err != nil {
		tb.Fatal(err)
	}
}

func errorText(err error) string { return err.Error() }

// Queries of the program in the pool DB take no connections from writes.
func TestWritesBesideABusyPool(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true})
	for range s.DB().Config().MaxConns {
		c, err := s.DB().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := range annals.SeqNr(3) {
		if _, err := s.Journal().Append(ctx, annals.Commit{ID: "T|1", After: n, Events: []annals.NewEvent{{Payload: text("e")}}}); err != nil {
			t.Fatal(err)
		}
	}
}
