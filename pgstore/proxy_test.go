package pgstore_test

import (
	"bytes"
	"encoding/binary"
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
	quiet bool                      // keep the connection whose answer got lost open, so that the client is not told
	half  bool                      // of the answer that gets lost, what comes up to its first row arrives
	mute  chan struct{}             // closed by silence: nothing is passed on any more

	onSilence func(request []byte) bool // of requests that silence swallows: tell swallowed
	swallowed chan struct{}
	conns     []net.Conn

	down     bool // connections are closed as soon as they are made
	attempts int  // to connect while down
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
	p := &proxy{server: u.Host, l: l, mute: make(chan struct{}), swallowed: make(chan struct{}, 1)}
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
	return p.loseAnswerTo(func(request []byte) bool { return bytes.HasPrefix(request, []byte("Q\x00\x00\x00\x0bcommit")) })
}

func (p *proxy) loseAnswerTo(match func(request []byte) bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.lost = match, make(chan struct{})
	return p.lost
}

// silence stops all traffic on all connections without closing them.
func (p *proxy) silence() { close(p.mute) }

// silent reports whether silence was called.
func (p *proxy) silent() bool {
	select {
	case <-p.mute:
		return true
	default:
		return false
	}
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

// setDown makes the proxy refuse connections, or accept them again. It returns the number of connection attempts while it was down.
func (p *proxy) setDown(down bool) (attempts int) {
	if down {
		defer p.cut()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	attempts, p.down, p.attempts = p.attempts, down, 0
	return attempts
}

func (p *proxy) serve() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		down := p.down
		if down {
			p.attempts++
		}
		p.mu.Unlock()
		if down {
			_ = client.Close()
			continue
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

// requests passes the client's messages on, and starts the goroutine that passes the answers on.
func (p *proxy) requests(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 1<<16)
	writes := false            // once it has been set up for writes
	cut := make(chan struct{}) // closed when the next answer is to be dropped
	go p.answers(client, server, cut)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if p.silent() {
			if p.onSilence != nil && p.onSilence(buf[:n]) {
				select {
				case p.swallowed <- struct{}{}:
				default:
				}
			}
			_, _ = io.Copy(io.Discard, client)
			return
		}
		if bytes.Contains(buf[:n], []byte("set_config('statement_timeout'")) {
			writes = true
		} else if writes && p.take(buf[:n]) {
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
			if p.half {
				_, _ = client.Write(throughFirstRow(buf[:n]))
			}
			if p.quiet {
				_, _ = io.Copy(io.Discard, server)
			}
			return
		default:
		}
		if p.silent() {
			_, _ = io.Copy(io.Discard, server)
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// throughFirstRow is the beginning of an answer up to the end of its first DataRow, which must be complete.
func throughFirstRow(answer []byte) []byte {
	for at := 0; at+5 <= len(answer); {
		end := at + 1 + int(binary.BigEndian.Uint32(answer[at+1:]))
		if answer[at] == 'D' && end <= len(answer) {
			return answer[:end]
		}
		at = end
	}
	return nil
}
