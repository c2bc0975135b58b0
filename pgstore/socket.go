package pgstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// sockets are the network connections of the store's own pools. The server answers every statement there within WriteTimeout; a
// network that drops packets says nothing at all. So a read, and each piece of a write, ends after limit.
type sockets struct {
	limit time.Duration

	mu   sync.Mutex
	open map[*socket]bool
	down bool // no more are made
}

// pieceBytes is how much of a long write shares one limit: a large commit over a slow network goes on for as long as it moves.
const pieceBytes = 1 << 20

var errDown = errors.New("the store is closed")

// dialer makes connections as dial does, that are bounded.
func (k *sockets) dialer(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s := &socket{Conn: conn, of: k}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.down {
			_ = conn.Close()
			return nil, errDown
		}
		if k.open == nil {
			k.open = map[*socket]bool{}
		}
		k.open[s] = true
		return s, nil
	}
}

// cut closes those that are open: the driver waits up to 15 seconds for a server that does not answer.
func (k *sockets) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = true
	for s := range k.open {
		_ = s.Conn.Close()
	}
}

// socket is one connection.
type socket struct {
	net.Conn
	of *sockets

	mu      sync.Mutex
	drivers bool      // the driver has set a deadline of its own: a context has ended
	armed   time.Time // our deadline
}

// arm moves the deadline on. It is moved by more than the limit, so that not every call has to.
func (s *socket) arm() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now().Add(s.of.limit)
	if s.drivers || !until.After(s.armed) {
		return nil
	}
	s.armed = until.Add(s.of.limit / 8)
	return s.Conn.SetDeadline(s.armed)
}

// Read is net.Conn's.
func (s *socket) Read(b []byte) (int, error) {
	if err := s.arm(); err != nil {
		return 0, err
	}
	return s.Conn.Read(b)
}

// Write is net.Conn's.
func (s *socket) Write(b []byte) (n int, err error) {
	for {
		if err := s.arm(); err != nil {
			return n, err
		}
		written, err := s.Conn.Write(b[n:min(n+pieceBytes, len(b))])
		if n += written; err != nil || n == len(b) {
			return n, err
		}
	}
}

// SetDeadline is net.Conn's. The zero time gives the deadline back to us.
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drivers, s.armed = !t.IsZero(), time.Time{}
	return s.Conn.SetDeadline(t)
}

// Close is net.Conn's.
func (s *socket) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	return s.Conn.Close()
}
