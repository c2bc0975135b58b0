package pgstore_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// newProxy is a proxy in front of the server at a URL.
func newProxy(tb testing.TB, url string) *postgres.FaultProxy {
	tb.Helper()
	p, err := postgres.NewFaultProxy(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// route leads the connections of a store to the server, and through a proxy once through was called. Most cases need no proxy, and a request through
// it takes much longer.
type route struct {
	*postgres.FaultProxy
	through atomic.Bool
}

// routes are the routes of stores under test.
type routes struct{ of sync.Map }

// open opens a store with a route to the server at a URL.
func (m *routes) open(tb testing.TB, url string, o pgstore.Options) annals.Store {
	tb.Helper()
	r := &route{FaultProxy: newProxy(tb, url)}
	direct, proxied := parsed(tb, url).Host, parsed(tb, r.URL).Host
	config, err := pgxpool.ParseConfig(r.URL)
	if err != nil {
		tb.Fatal(err)
	}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == proxied && !r.through.Load() {
			addr = direct
		}
		return dial(ctx, network, addr)
	}
	s := openIn(tb, poolOn(tb, config), o)
	urls.Store(s, url)
	m.of.Store(s, r)
	return s
}

// through returns the proxy of a store, all of whose requests go through it from now on.
func (m *routes) through(s annals.Store) *postgres.FaultProxy {
	r, _ := m.of.Load(s)
	if !r.(*route).through.Swap(true) {
		pgstore.Reconnect(s.(*pgstore.Store))
	}
	return r.(*route).FaultProxy
}

// lose loses the answer to the next request of a kind. end fails the test when there was none.
func (m *routes) lose(tb testing.TB, s annals.Store, kind postgres.Kind) (end func()) {
	p := m.through(s)
	lost := lose(p, kind)
	return func() {
		p.SetRule(nil)
		select {
		case <-lost:
		default:
			tb.Errorf("no answer to a %s was lost", kind)
		}
	}
}

// once makes f happen to the next request of a kind. happened is closed then.
func once(p *postgres.FaultProxy, kind postgres.Kind, f postgres.Fault) (happened <-chan struct{}) {
	c := make(chan struct{})
	left := 1
	p.SetRule(func(r postgres.Request) postgres.Fault {
		if r.Kind != kind || left == 0 {
			return postgres.Fault{}
		}
		left--
		close(c)
		return f
	})
	return c
}

// lose loses the answer to the next request of a kind.
func lose(p *postgres.FaultProxy, kind postgres.Kind) (lost <-chan struct{}) {
	return once(p, kind, postgres.Fault{LoseAnswer: true})
}

// silence makes the network transmit nothing any more, on all connections, which stay open.
func silence(p *postgres.FaultProxy) {
	p.SetRule(func(postgres.Request) postgres.Fault { return postgres.Fault{Swallow: true} })
}

// stop closes all connections and refuses new ones. restart ends that and returns how many were refused.
func stop(p *postgres.FaultProxy) (restart func() (refused int)) {
	refused := 0
	p.SetRule(func(r postgres.Request) postgres.Fault {
		if r.Kind == postgres.Connect {
			refused++
		}
		return postgres.Fault{Refuse: r.Kind == postgres.Connect}
	})
	p.Cut()
	return func() int {
		p.SetRule(nil)
		return refused
	}
}
