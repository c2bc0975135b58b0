package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// history is how many events the entity T|1 has in the tests of pages: a page of 200, and one of many parts. A replay begins the second
// page with event 200 once more, so its second part begins with event 456.
const history = 5_000

// openHistory is a store with that entity. Its pool has one connection, which goes through wrap.
func openHistory(t *testing.T, wrap func(net.Conn) net.Conn) (s *pgstore.Store, p *pgxpool.Pool, url string) {
	t.Helper()
	url = postgres.Schema(t)
	p = poolOver(t, with(t, url, "pool_max_conns=1"), wrap)
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	storeEvents(t, url, "T|1", history, "n || repeat('x', 200)")
	return s, p, url
}

func plain(conn net.Conn) net.Conn { return conn }

// replay calls body for each event of T|1 until it returns false. The test fails for an event that is not the next one.
func replay(ctx context.Context, t *testing.T, s annals.Store, body func(annals.SeqNr) bool) (last annals.SeqNr, err error) {
	t.Helper()
	for e, err := range s.Journal().Replay(ctx, "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			return last, err
		}
		if last++; e.SeqNr != last || string(e.Data) != fmt.Sprint(last, strings.Repeat("x", 200)) {
			t.Fatalf("event %d with %d bytes, want event %d", e.SeqNr, len(e.Data), last)
		}
		if !body(last) {
			break
		}
	}
	return last, nil
}

func always(annals.SeqNr) bool { return true }

// at is a body that calls do for some events.
func at(do func(), numbers ...annals.SeqNr) func(annals.SeqNr) bool {
	return func(n annals.SeqNr) bool {
		if slices.Contains(numbers, n) {
			do()
		}
		return true
	}
}

// awaitFree waits until the connection of p is not in use. A new connection that fails is an answer, too: it takes the place of the old one.
func awaitFree(t *testing.T, p *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := p.Acquire(ctx)
	switch {
	case err == nil:
		conn.Release()
	case ctx.Err() != nil:
		t.Fatal("the connection is still in use")
	}
}

// The body of a replay gets all events, also when it takes long, or uses the only connection itself.
func TestBodiesOfReplays(t *testing.T) {
	t.Parallel()
	s, p, _ := openHistory(t, plain)
	whole := func(s annals.Store, body func(annals.SeqNr) bool) {
		t.Helper()
		if last, err := replay(t.Context(), t, s, body); err != nil || last != history {
			t.Errorf("replayed up to %d (%v), want %d", last, err, history)
		}
	}
	look := func(s annals.Store) {
		if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); err != nil || last != history {
			t.Errorf("the last number is %d (%v), want %d", last, err, history)
		}
	}
	whole(s, always)
	whole(s, at(func() { awaitFree(t, p) }, 201, 455, 456, 457, history)) // slow
	whole(s, at(func() { look(s) }, 1, 200, 201, 455, 456, 457, 3_000, history))
	whole(s, at(func() { whole(s, at(func() { whole(s, always) }, 1_000)) }, 300))
	if err := s.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, in annals.Store) error {
		whole(in, at(func() { look(in) }, 1, 200, 201, 455, 456, 457, 3_000, history))
		return nil
	}); err != nil {
		t.Error(err)
	}
	recovered := annals.SeqNr(0)
	last, err := ability.Recover(t.Context(), s, "T|1", func(annals.Snapshot) error { return nil }, func(e annals.Event) error {
		if recovered++; recovered%600 == 0 {
			look(s)
		}
		return nil
	})
	if err != nil || last != history || recovered != history {
		t.Errorf("recovered %d events up to %d (%v), want %d", recovered, last, err, history)
	}
	if n := p.Stat().AcquiredConns(); n > 0 {
		t.Errorf("%d connections are in use at the end", n)
	}
}

// A replay that is not read to its end keeps no connection, and the next one gets all events.
func TestReplaysStopWithinAPage(t *testing.T) {
	t.Parallel()
	s, p, _ := openHistory(t, plain)
	for _, stop := range []annals.SeqNr{1, 200, 201, 300, 455, 456, 457, history} {
		last, err := replay(t.Context(), t, s, func(n annals.SeqNr) bool { return n < stop })
		if n := p.Stat().AcquiredConns(); err != nil || last != stop || n > 0 {
			t.Errorf("stopped at %d: replayed up to %d (%v), %d connections are in use", stop, last, err, n)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = replay(t.Context(), t, s, at(func() { panic("body") }, 300))
	}()
	if n := p.Stat().AcquiredConns(); n > 0 {
		t.Errorf("%d connections are in use after a panic", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	last, err := replay(ctx, t, s, at(cancel, 300))
	if wantKind(t, err, context.Canceled); last != 300 {
		t.Errorf("replayed up to %d, canceled at 300", last)
	}
	if last, err := replay(t.Context(), t, s, always); err != nil || last != history {
		t.Errorf("replayed up to %d (%v) at last, want %d", last, err, history)
	}
}

// cutConn breaks after some bytes were read.
type cutConn struct {
	net.Conn
	left *atomic.Int64
}

var errCut = errors.New("cut by the test")

func (c cutConn) Read(b []byte) (int, error) {
	left := c.left.Load()
	if left <= 0 {
		_ = c.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.left.Add(-int64(n))
	return n, err
}

// A connection breaks within a page: the replay ends with an error, never as if there were no more events, whether the body was waiting
// for events or was handling them.
func TestConnectionBreaksWithinAPage(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	left.Store(1 << 40)
	s, p, _ := openHistory(t, func(conn net.Conn) net.Conn { return cutConn{conn, &left} })
	for range 2 { // the first replay also connects, and prepares the statement
		left.Store(1 << 40)
		if _, err := replay(t.Context(), t, s, always); err != nil {
			t.Fatal(err)
		}
	}
	size := 1<<40 - left.Load() // of the answers to a replay
	slow := at(func() { awaitFree(t, p) }, 201)
	for _, share := range []int64{0, 10, 100, 500, 900, 999} {
		for name, body := range map[string]func(annals.SeqNr) bool{"fast": always, "slow": slow} {
			left.Store(size * share / 1000)
			last, err := replay(t.Context(), t, s, body)
			if wantKind(t, err, annals.ErrUnavailable); last >= history || int64(last) > history*share/1000+1 {
				t.Errorf("%s: replayed up to %d of %d when %d ‰ of the answers arrived", name, last, history, share)
			}
			left.Store(1 << 40)
		}
	}
	if last, err := replay(t.Context(), t, s, always); err != nil || last != history {
		t.Errorf("replayed up to %d (%v) after it, want %d", last, err, history)
	}
}

// A number is missing within a part, and where one part ends and the next begins. The look for its cause needs the only connection.
func TestHoleBetweenParts(t *testing.T) {
	t.Parallel()
	s, p, url := openHistory(t, plain)
	for _, hole := range []annals.SeqNr{300, 455, 456, 457} {
		change := func(format string) { run(t, url, fmt.Sprintf(format, hole)) }
		change("CREATE TABLE hole AS SELECT * FROM event_journal WHERE seq_nr = %d")
		change("UPDATE event_journal SET deleted = TRUE WHERE seq_nr = %d") // the marker of a delete explains the hole
		events, err := collected(s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr))
		if err != nil || len(events) != history-1 || events[hole-1].SeqNr != hole+1 {
			t.Errorf("%d events (%v), want all but %d", len(events), err, hole)
		}
		change("DELETE FROM event_journal WHERE seq_nr = %d")
		events, err = collected(s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr))
		if wantKind(t, err, annals.ErrCorrupt); len(events) >= int(hole) {
			t.Errorf("%d events are replayed, and %d is missing", len(events), hole)
		}
		run(t, url, "INSERT INTO event_journal SELECT * FROM hole")
		run(t, url, "DROP TABLE hole")
	}
	if n := p.Stat().AcquiredConns(); n > 0 {
		t.Errorf("%d connections are in use at the end", n)
	}
}
