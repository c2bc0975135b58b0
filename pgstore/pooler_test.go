package pgstore_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler is a pooler like PgBouncer between a store and its server. A client has a session of the server for one transaction or, when the
// pooler keeps sessions, until the client disconnects.
type pooler struct {
	url    string // of the server, through the pooler
	server string
	keeps  bool // sessions

	mu       sync.Mutex
	sessions []*pgconn.HijackedConn // that no client uses
}

func newPooler(t *testing.T, server string, keeps bool) *pooler {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	p := &pooler{server: u.String(), keeps: keeps}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	q.Del("search_path") // PgBouncer passes no such parameter on: the server's session has it already
	u.RawQuery = q.Encode()
	p.url = u.String()
	var clients sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	clients.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			clients.Go(func() {
				defer c.Close()
				p.serve(t, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		clients.Wait()
		for _, s := range p.sessions {
			_ = s.Conn.Close()
		}
	})
	return p
}

// take is the session that was given back last, or a new one.
func (p *pooler) take(t *testing.T) (*pgconn.HijackedConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.sessions) - 1; last >= 0 {
		s := p.sessions[last]
		p.sessions = p.sessions[:last]
		return s, nil
	}
	conn, err := pgconn.Connect(t.Context(), p.server)
	if err != nil {
		return nil, err
	}
	return conn.Hijack()
}

func (p *pooler) give(s *pgconn.HijackedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = append(p.sessions, s)
}

// serve is one client's connection, from its greeting on.
func (p *pooler) serve(t *testing.T, c net.Conn) {
	client := pgproto3.NewBackend(c, c)
	greeting, err := client.ReceiveStartupMessage()
	if err != nil {
		return
	}
	for name := range greeting.(*pgproto3.StartupMessage).Parameters {
		if name != "user" && name != "database" {
			client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
			_ = client.Flush()
			return
		}
	}
	s, err := p.take(t)
	if err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range s.ParameterStatuses {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}}) // the pooler's own, as PgBouncer's
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if client.Flush() != nil {
		return
	}
	if p.keeps {
		defer s.Conn.Close()
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, s.Conn)
		}()
		_, _ = io.Copy(s.Conn, c)
		return
	}
	for {
		p.give(s)
		m, err := client.Receive()
		if _, left := m.(*pgproto3.Terminate); left || err != nil {
			return
		}
		if s, err = p.take(t); err != nil {
			return
		}
		if !transaction(client, s.Frontend, m) {
			_ = s.Conn.Close()
			return
		}
	}
}

// transaction passes messages on until the server's transaction has ended. The server is ready for another batch only after the last
// message of a batch. transaction returns false when the client or the server has disconnected.
func transaction(client *pgproto3.Backend, server *pgproto3.Frontend, m pgproto3.FrontendMessage) bool {
	for {
		server.Send(m)
		switch m.(type) {
		case *pgproto3.Sync, *pgproto3.Query:
			if server.Flush() != nil {
				return false
			}
			idle, ok := answers(client, server)
			if !ok || idle {
				return ok
			}
		}
		var err error
		if m, err = client.Receive(); err != nil {
			return false
		}
	}
}

// answers passes the server's messages on until the server is ready, and reports whether its transaction has ended.
func answers(client *pgproto3.Backend, server *pgproto3.Frontend) (idle, ok bool) {
	for {
		m, err := server.Receive()
		if err != nil {
			return false, false
		}
		client.Send(m)
		if ready, is := m.(*pgproto3.ReadyForQuery); is {
			return ready.TxStatus == 'I', client.Flush() == nil
		}
	}
}
