package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// A write at the size limit takes at most a quarter of WriteTimeout, or four times as long as the plain driver takes for the same rows,
// where the server is slower than the limit expects. A larger write is refused before anything is sent.
func TestLargestWrites(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	url := tables(t, pgstore.Options{})
	run(t, url, `CREATE TABLE plain (data BYTEA)`)
	var sent atomic.Int64
	p := poolOver(t, url, func(conn net.Conn) net.Conn { return countingConn{conn, &sent} })
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{WriteTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit := s.Capabilities().Limits.MaxBytes
	if limit != 8<<20 {
		t.Fatalf("the limit is %d bytes, want 4 MiB for each second of %v", limit, timeout)
	}
	largest := make([]byte, limit)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(largest) // the server cannot compress it
	payload := func(data []byte) annals.Payload { return annals.Payload{SerializerID: 4, Data: data} }
	events := func(n int, data []byte) (all []annals.NewEvent) {
		for i := range n {
			all = append(all, annals.NewEvent{Payload: payload(data[i*len(data)/n : (i+1)*len(data)/n])})
		}
		return all
	}
	cases := []struct {
		name  string
		rows  int
		write func(ctx context.Context, id annals.PersistenceID, data []byte) error
	}{
		{"one event", 1, func(ctx context.Context, id annals.PersistenceID, data []byte) error {
			_, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: events(1, data)})
			return err
		}},
		{"many events", 500, func(ctx context.Context, id annals.PersistenceID, data []byte) error {
			_, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: events(500, data)})
			return err
		}},
		{"events and a snapshot", 3, func(ctx context.Context, id annals.PersistenceID, data []byte) error {
			_, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: events(2, data[len(data)/3:]),
				Snapshot: &annals.Snapshot{ID: id, SeqNr: 2, Payload: payload(data[:len(data)/3])}})
			return err
		}},
		{"a snapshot", 1, func(ctx context.Context, id annals.PersistenceID, data []byte) error {
			return s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 1, Payload: payload(data)})
		}},
		{"a state", 1, func(ctx context.Context, id annals.PersistenceID, data []byte) error {
			_, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: payload(data)})
			return err
		}},
	}
	before := sent.Load()
	for _, c := range cases {
		err := c.write(t.Context(), "T|beyond", append(largest, 0))
		wantKind(t, err, annals.ErrTooLarge)
		if want := fmt.Sprintf("%d bytes, the store takes %d", limit+1, limit); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", c.name, err, want)
		}
	}
	if n := sent.Load() - before; n != 0 {
		t.Errorf("%d bytes were sent for writes that are too large", n)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var took, plain time.Duration
			for i := range 6 { // one of six: others may keep the machine busy
				began := time.Now()
				if err := c.write(t.Context(), annals.PersistenceID(fmt.Sprintf("T|%s %d", c.name, i)), largest); err != nil {
					t.Fatal(err)
				}
				took = time.Since(began)
				if plain = plainWrite(t, url, c.rows, largest); took <= max(timeout/4, 4*plain) {
					return
				}
			}
			t.Errorf("the write takes %v, the plain driver's %v, WriteTimeout is %v", took, plain, timeout)
		})
	}
}

// plainWrite is how long the driver alone takes to write data in so many rows.
func plainWrite(t *testing.T, url string, rows int, data []byte) time.Duration {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var batch pgx.Batch
	for i := range rows {
		batch.Queue(`INSERT INTO plain VALUES ($1)`, data[i*len(data)/rows:(i+1)*len(data)/rows])
	}
	began := time.Now()
	if err := conn.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// countingConn counts the bytes that are sent.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}
