package pgstore_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a store and its server and loses answers on demand.
type proxy struct {
	url    string // of the server, through the proxy
	server string
	l      net.Listener

	mu    sync.Mutex
	match func(request []byte) bool // of the request whose answer gets lost; nil: none
	lost  chan struct{}             // closed when it got lost
	quiet bool                      // keep the connection whose answer got lost: nobody says that it is broken
	conns []net.Conn
}

func newProxy(tb testing.TB, server string) *proxy {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{server: u.Host, l: l}
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // what it reads must be plain
	u.RawQuery = q.Encode()
	p.url = u.String()
	go p.serve()
	tb.Cleanup(func() {
		_ = l.Close()
		p.cut()
	})
	return p
}

// lose loses the answer to the next write that is executed on its own.
func (p *proxy) lose() <-chan struct{} {
	return p.loseAnswerTo(func(request []byte) bool { return request[0] == 'B' }) // Bind, with all that follows it
}

// loseCommit loses the answer to the next COMMIT.
func (p *proxy) loseCommit() <-chan struct{} {
	return p.loseAnswerTo(func(request []byte) bool { return request[0] == 'Q' && bytes.Contains(request, []byte("commit")) })
}

func (p *proxy) loseAnswerTo(match func(request []byte) bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.lost = match, make(chan struct{})
	return p.lost
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) serve() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		go p.requests(client, server)
	}
}

// requests carries what the client says, and starts what carries the answers.
func (p *proxy) requests(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 1<<16)
	n, err := client.Read(buf) // the start-up message: it tells which of the store's connections this is
	if err != nil {
		return
	}
	writes := bytes.Contains(buf[:n], []byte("statement_timeout")) && !bytes.Contains(buf[:n], []byte("synchronous_commit"))
	if _, err := server.Write(buf[:n]); err != nil {
		return
	}
	cut := make(chan struct{}) // closed when the next answer is to be dropped
	go p.answers(client, server, cut)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if writes && p.take(buf[:n]) {
			close(cut)
			_, _ = server.Write(buf[:n])
			_, _ = io.Copy(io.Discard, client) // until answers has closed it
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// take reports whether the answer to this request is the one to lose.
func (p *proxy) take(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.match == nil || !p.match(request) {
		return false
	}
	p.match = nil
	close(p.lost)
	return true
}

func (p *proxy) answers(client, server net.Conn, cut <-chan struct{}) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-cut: // the server has answered: what it was asked is done
			if p.quiet {
				_, _ = io.Copy(io.Discard, server)
			}
			return
		default:
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
