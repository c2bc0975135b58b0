package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/pgstore/internal/wire"
)

// A connection whose other end neither reads nor writes: reads and writes end, and go on for as long as anything moves. A deadline of
// the driver's, which interrupts what a context has ended, comes first.
func TestSocketsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		near, far := net.Pipe()
		defer far.Close()
		conn, err := (&wire.Sockets{Limit: limit}).Dialer(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		within := func(what string, least, most time.Duration, do func() error) {
			t.Helper()
			began := time.Now()
			if err := do(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want a time-out", what, err)
			}
			if took := time.Since(began); took < least || took > most {
				t.Errorf("%s: ended after %v, want between %v and %v", what, took, least, most)
			}
		}
		read := func() error { _, err := conn.Read(make([]byte, 1)); return err }
		within("a read", limit, 2*limit, read)
		within("a write", limit, 2*limit, func() error { _, err := conn.Write(make([]byte, 3<<20)); return err })

		_ = conn.SetDeadline(time.Now().Add(time.Second))
		within("an interrupted read", time.Second, time.Second, read)
		_ = conn.SetDeadline(time.Time{})
		within("a read after that", limit, 2*limit, read)

		go func() { // a slow reader: each piece takes nearly the limit
			piece := make([]byte, 1<<20)
			for range 5 {
				time.Sleep(limit * 9 / 10)
				if _, err := io.ReadFull(far, piece); err != nil {
					t.Error(err)
				}
			}
		}()
		if n, err := conn.Write(make([]byte, 5<<20)); n != 5<<20 || err != nil {
			t.Errorf("a long write that moves on: %d bytes, %v", n, err)
		}
	})
}
