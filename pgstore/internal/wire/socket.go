package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Sockets are the network connections of a pool whose server answers every statement within a known time. A network that drops
// packets sends no error, so each read, and each piece of a write, fails after Limit. The methods may be called concurrently.
type Sockets struct {
	Limit time.Duration // set before the first connection is made

	mu     sync.Mutex
	open   map[*socket]bool
	closed bool
}

// pieceBytes is how many bytes of a write share one limit: a large write over a slow network continues as long as it makes progress.
const pieceBytes = 1 << 20

var errClosed = errors.New("the store is closed")

// Dialer makes connections by dial and bounds them.
func (k *Sockets) Dialer(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s := &socket{Conn: conn, of: k}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.closed {
			_ = conn.Close()
			return nil, errClosed
		}
		if k.open == nil {
			k.open = map[*socket]bool{}
		}
		k.open[s] = true
		return s, nil
	}
}

// Close closes the connections that are open, and no further ones are made. Without it the driver waits up to 15 seconds for a server
// that does not answer.
func (k *Sockets) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for s := range k.open {
		_ = s.Conn.Close()
	}
}

// socket is one connection.
type socket struct {
	net.Conn
	of *Sockets

	mu       sync.Mutex
	external bool      // the driver has set a deadline, because a context has ended
	deadline time.Time // set by extend
}

// extend moves the deadline. It adds an eighth of the limit, so that not every call has to move the deadline.
func (s *socket) extend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now().Add(s.of.Limit)
	if s.external || !until.After(s.deadline) {
		return nil
	}
	s.deadline = until.Add(s.of.Limit / 8)
	return s.Conn.SetDeadline(s.deadline)
}

// Read implements net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	if err := s.extend(); err != nil {
		return 0, err
	}
	return s.Conn.Read(b)
}

// Write implements net.Conn.
func (s *socket) Write(b []byte) (n int, err error) {
	for {
		if err := s.extend(); err != nil {
			return n, err
		}
		written, err := s.Conn.Write(b[n:min(n+pieceBytes, len(b))])
		if n += written; err != nil || n == len(b) {
			return n, err
		}
	}
}

// SetDeadline implements net.Conn. While t is not zero the limit does not apply.
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.external, s.deadline = !t.IsZero(), time.Time{}
	return s.Conn.SetDeadline(t)
}

// Close implements net.Conn.
func (s *socket) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	return s.Conn.Close()
}
