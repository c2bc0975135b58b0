package pgstore_test

import (
	"sync"
	"testing"

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

// proxies are the proxies of the stores that were opened behind one.
type proxies struct{ of sync.Map }

// open opens a store behind a proxy.
func (m *proxies) open(tb testing.TB, url string) annals.Store {
	tb.Helper()
	p := newProxy(tb, url)
	s := openAt(tb, p.URL, pgstore.Options{})
	m.of.Store(s, p)
	return s
}

func (m *proxies) proxy(s annals.Store) *postgres.FaultProxy {
	p, _ := m.of.Load(s)
	return p.(*postgres.FaultProxy)
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
