package postgres

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// FaultProxy stands between clients and a PostgreSQL server and injects the faults that a rule asks for.
type FaultProxy struct {
	URL string // of the server, through the proxy

	target   string
	listener net.Listener

	mu     sync.Mutex
	rule   func(Request) Fault
	counts map[Kind]int
	conns  []net.Conn
}

// Request is what a rule decides about: the messages of a client up to a Sync, a simple Query, or a new connection.
type Request struct {
	Kind   Kind
	Number int    // among the requests of its kind, from 1
	SQL    string // of its statements, separated by semicolons
}

// Kind is the kind of a request.
type Kind string

// The kinds of requests.
const (
	Connect Kind = "connect" // a new connection, also one that asks the server to cancel a request; Refuse and Swallow are its faults
	Prepare Kind = "prepare" // executes nothing
	Read    Kind = "read"
	Write   Kind = "write" // executes a statement with INSERT, UPDATE or DELETE
	Commit  Kind = "commit"
)

// Fault is what happens to a request. The zero Fault lets it pass.
type Fault struct {
	Delay      time.Duration // the request is passed on after this time
	Refuse     bool          // the connection is closed, and the server does not see the request
	Swallow    bool          // the server does not see the request nor what follows, and the connection stays open
	Terminate  bool          // answered with the error of a connection that an administrator terminates; the server does not see the request
	LoseAnswer bool          // passed on, and the connection is closed when the server has answered
	KeepOpen   bool          // with LoseAnswer: the connection stays open, and no later answer arrives either
	CutAnswer  bool          // as LoseAnswer, but the client gets the answer up to its first row: whether the server committed stays unknown
	Abandon    time.Duration // the connection is closed at once, and the request is passed on after this time; 0: no fault
}

// NewFaultProxy starts a proxy in front of the server at a URL. Connections through the proxy are not encrypted.
func NewFaultProxy(server string) (*FaultProxy, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &FaultProxy{target: u.Host, listener: l, counts: map[Kind]int{}}
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	p.URL = u.String()
	go p.serve()
	return p, nil
}

// Close closes the proxy and all connections through it.
func (p *FaultProxy) Close() {
	_ = p.listener.Close()
	p.Cut()
}

// Cut closes all connections.
func (p *FaultProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// SetRule makes the proxy ask rule about every request from now on, one at a time. nil lets all requests pass.
func (p *FaultProxy) SetRule(rule func(Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

func (p *FaultProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.keep(client)
		switch f := p.judge(Connect, ""); {
		case f.Refuse:
			_ = client.Close()
			continue
		case f.Swallow:
			go drop(client)
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.keep(server)
		c := &proxied{proxy: p, client: client, server: server, statements: map[string]string{}, pending: []Fault{{}}} // the startup has an answer too
		go c.requests()
		go c.answers()
	}
}

// keep notes a connection, for Cut.
func (p *FaultProxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
}

// drop reads what a client sends, until the client closes the connection.
func drop(client net.Conn) {
	defer client.Close()
	_, _ = io.Copy(io.Discard, client)
}

// judge counts a request and asks the rule about it.
func (p *FaultProxy) judge(kind Kind, sql string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[kind]++
	if p.rule == nil {
		return Fault{}
	}
	return p.rule(Request{Kind: kind, Number: p.counts[kind], SQL: sql})
}

var writes = regexp.MustCompile(`(?i)\b(insert|update|delete)\b`)

func kindOf(sql string) Kind {
	switch {
	case sql == "":
		return Prepare
	case strings.HasPrefix(strings.ToLower(strings.TrimSpace(sql)), "commit"):
		return Commit
	case writes.MatchString(sql):
		return Write
	}
	return Read
}

// proxied is one connection through a proxy.
type proxied struct {
	proxy          *FaultProxy
	client, server net.Conn
	statements     map[string]string // the SQL of prepared statements, by name

	mu      sync.Mutex
	pending []Fault // of the requests that the server has not answered
	closing bool    // the server's connection is closed when nothing is pending
}

// requests passes on what the client sends.
func (c *proxied) requests() {
	defer c.finish()
	in := bufio.NewReader(c.client)
	startup, err := readFrame(in, 0)
	if err != nil {
		return
	}
	if _, err := c.server.Write(startup); err != nil {
		return
	}
	var messages []byte // of the request
	var sql []string
	kinds := map[string]Kind{} // of the statements so far
	for {
		frame, err := readFrame(in, 1)
		if err != nil {
			return
		}
		messages = append(messages, frame...)
		switch frame[0] {
		case 'P', 'D', 'E', 'C':
			c.learn(frame)
			continue
		case 'B':
			sql = append(sql, c.bound(frame))
			continue
		case 'Q':
			sql = append(sql, strings.TrimRight(string(frame[5:]), "\x00"))
		}
		if frame[0] == 'S' || frame[0] == 'Q' {
			text := strings.Join(sql, "; ")
			if kinds[text] == "" {
				kinds[text] = kindOf(text)
			}
			if c.inject(c.proxy.judge(kinds[text], text), messages) {
				return
			}
		} else if _, err := c.server.Write(messages); err != nil {
			return
		}
		messages, sql = nil, nil
	}
}

// inject passes a request on as f says. It returns true when that ends the connection.
func (c *proxied) inject(f Fault, messages []byte) (ended bool) {
	switch {
	case f.Refuse:
		_ = c.client.Close()
		return true
	case f.Swallow:
		drop(c.client)
		return true
	case f.Terminate:
		terminated := pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}
		text, _ := terminated.Encode(nil)
		_, _ = c.client.Write(text)
		_ = c.client.Close()
		return true
	case f.Abandon > 0:
		_ = c.client.Close()
	}
	if wait := f.Delay + f.Abandon; wait > 0 {
		<-time.After(wait)
	}
	c.mu.Lock()
	c.pending = append(c.pending, f)
	c.mu.Unlock()
	_, err := c.server.Write(messages)
	return err != nil || f.Abandon > 0
}

// finish closes the server's connection when the server has answered what is pending.
func (c *proxied) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing = true; len(c.pending) == 0 {
		_ = c.server.Close()
	}
}

// answers passes on what the server sends. It continues when the client has disconnected, so that the server finishes its requests.
func (c *proxied) answers() {
	defer c.server.Close()
	defer c.client.Close()
	in, out := bufio.NewReader(c.server), bufio.NewWriter(c.client)
	defer func() { _ = out.Flush() }()
	rows := 0 // or errors, of the answer so far
	for {
		frame, err := readFrame(in, 1)
		if err != nil {
			return
		}
		f := c.current()
		if !f.LoseAnswer && (!f.CutAnswer || rows == 0) {
			_, _ = out.Write(frame)
		}
		if in.Buffered() == 0 {
			_ = out.Flush()
		}
		switch frame[0] {
		case 'D', 'C', 'E':
			rows++
		case 'Z':
			rows = 0
			if f.KeepOpen {
				_ = out.Flush()
				_, _ = io.Copy(io.Discard, in)
			}
			if c.answered() || f.LoseAnswer || f.CutAnswer {
				return
			}
		}
	}
}

// current returns the fault of the request that the server answers now.
func (c *proxied) current() Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 { // a message that answers nothing, such as the end of an idle connection
		return Fault{}
	}
	return c.pending[0]
}

// answered notes that a request is answered. It returns true when the connection ends with it.
func (c *proxied) answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		c.pending = c.pending[1:]
	}
	return c.closing && len(c.pending) == 0
}

// learn notes the SQL of a Parse message.
func (c *proxied) learn(frame []byte) {
	if frame[0] != 'P' {
		return
	}
	name, rest, _ := strings.Cut(string(frame[5:]), "\x00")
	sql, _, _ := strings.Cut(rest, "\x00")
	c.statements[name] = sql
}

// bound returns the SQL of the statement that a Bind message names.
func (c *proxied) bound(frame []byte) string {
	_, rest, _ := strings.Cut(string(frame[5:]), "\x00")
	name, _, _ := strings.Cut(rest, "\x00")
	return c.statements[name]
}

// readFrame reads a message: a type of typeBytes bytes, then the length of the rest, which counts itself.
func readFrame(in *bufio.Reader, typeBytes int) ([]byte, error) {
	head, err := in.Peek(typeBytes + 4)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, typeBytes+int(binary.BigEndian.Uint32(head[typeBytes:])))
	_, err = io.ReadFull(in, frame)
	return frame, err
}
