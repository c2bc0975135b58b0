package pgstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// silentAfter is the most time that a call may wait for a network that transmits nothing, in tests that expect a fraction of it.
const silentAfter = 20 * time.Second

// ends fails the test when f does not return.
func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(silentAfter):
		t.Errorf("%s waits for a silent network", what)
	}
}

// patiently repeats a write, the same each time, which can take longer than WriteTimeout on a busy machine.
func patiently(write func() error) error {
	err := write()
	for errors.Is(err, annals.ErrUnavailable) || errors.Is(err, annals.ErrUnknown) {
		err = write()
	}
	return err
}

// The network stops transmitting. Every kind of write ends without a deadline of its caller. The error says whether the write may have been
// stored.
func TestWritesOnASilentNetwork(t *testing.T) {
	t.Parallel()
	var waits sync.WaitGroup
	defer waits.Wait()
	for what, write := range map[string]func(ctx context.Context, s *pgstore.Store) error{
		"save snapshot": func(ctx context.Context, s *pgstore.Store) error {
			return s.Snapshots().Save(ctx, annals.Snapshot{ID: "T|1", SeqNr: 1, Payload: text("s")})
		},
		"delete snapshots": func(ctx context.Context, s *pgstore.Store) error {
			return s.Snapshots().Delete(ctx, "T|1", annals.SnapshotCriteria{MaxSeqNr: 9})
		},
		"delete events": func(ctx context.Context, s *pgstore.Store) error { return s.Journal().DeleteTo(ctx, "T|1", 1) },
		"save offsets": func(ctx context.Context, s *pgstore.Store) error {
			return s.Offsets().Save(ctx, annals.Progress{Projection: "p", Epoch: 1, Offsets: []annals.Offset{{ID: "T|1", SeqNr: 1, Time: time.Now()}}})
		},
		"reset offsets": func(ctx context.Context, s *pgstore.Store) error {
			return s.Offsets().Reset(ctx, "p", annals.SliceRange{}, annals.Offset{})
		},
		"check health": func(ctx context.Context, s *pgstore.Store) error {
			return s.Unwrap().(ability.HealthChecker).CheckHealth(ctx)
		},
		"skip": func(ctx context.Context, s *pgstore.Store) error {
			return s.Unwrap().(ability.Skipper).SkipTo(ctx, "T|2", 0, 5)
		},
		"a transaction that fails": func(ctx context.Context, s *pgstore.Store) error {
			return s.InTx(ctx, func(context.Context, pgx.Tx, annals.Store) error { return errors.New("of the function") })
		},
		"a transaction's call": func(ctx context.Context, s *pgstore.Store) error {
			return s.InTx(ctx, func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
				_, err := in.Journal().LastSeqNr(context.WithoutCancel(ctx), "T|1")
				return err
			})
		},
	} {
		p := newProxy(t, postgres.Schema(t))
		s := openAt(t, p.URL, pgstore.Options{CreateTables: true, WriteTimeout: 200 * time.Millisecond})
		if err := patiently(func() error { return write(t.Context(), s) }); err != nil && what != "a transaction that fails" {
			t.Fatalf("%s: %v", what, err)
		}
		waits.Go(func() { // not in a parallel subtest: few of those run at the same time, and all of these wait
			silence(p)
			ends(t, what, func() {
				if err := write(context.Background(), s); err == nil {
					t.Errorf("%s succeeds on a silent network", what)
				}
			})
			p.Close() // the driver would ask the server to cancel, and wait
		})
	}
}

// The network stops transmitting during a transaction, whose function then returns an error.
func TestRollbackOnASilentNetwork(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true, WriteTimeout: 200 * time.Millisecond})
	mine := errors.New("of the function")
	ends(t, "the rollback", func() {
		var err error
		for silent := false; !silent; { // on a busy machine the append can take longer than WriteTimeout
			err = s.InTx(context.Background(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
				if _, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}}); err != nil {
					return err
				}
				silent = true
				silence(p)
				return mine
			})
		}
		wantKind(t, err, mine)
	})
}

// A read without a deadline waits for a silent network. Close returns an error that says so, and waits for no connection, in use or idle.
func TestCloseOnASilentNetwork(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	reading := make(signal, 1)
	s := openTraced(t, p.URL, reading, pgstore.Options{CreateTables: true, WriteTimeout: 200 * time.Millisecond})
	first := annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}, WriteID: annals.NewWriteID()}
	err := patiently(func() error {
		_, err := s.Journal().Append(t.Context(), first)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{}); err != nil { // has a connection of its own
		t.Fatal(err)
	}
	silence(p)
	read := make(chan error, 1)
	go func() {
		_, err := s.Journal().LastSeqNr(context.Background(), "T|1")
		read <- err
	}()
	select {
	case <-reading:
	case err := <-read:
		t.Fatalf("the read ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the read has not begun")
	}
	began := time.Now()
	ends(t, "Close", func() { wantKind(t, s.Close(), annals.ErrUnavailable) })
	if took := time.Since(began); took > silentAfter/2 {
		t.Errorf("Close took %v", took)
	}
	p.Close() // the driver would ask the server to cancel, and wait
	if err := <-read; err == nil {
		t.Error("a read on a silent network succeeds")
	}
}

// signal is a tracer that sends when a last number is asked for.
type signal chan struct{}

func (s signal) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "SELECT coalesce((SELECT seq_nr") {
		select {
		case s <- struct{}{}:
		default: // sent before
		}
	}
	return ctx
}

func (signal) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The outcome of a write arrives when the caller's context has already ended. The call returns the outcome.
func TestOutcomeBeforeTheContextsEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // select chooses at random
		if _, err := pgstore.AwaitAnswered(ctx); err != nil {
			t.Fatalf("got %v, want the outcome", err)
		}
	}
}

// Each answer comes in time, but all answers of a write together take too long: the write ends as a whole, and nothing is stored.
func TestWriteOfManyStatementsOnASlowNetwork(t *testing.T) {
	t.Parallel()
	url := tables(t, pgstore.Options{})
	var slow atomic.Bool
	p := poolOver(t, url, func(conn net.Conn) net.Conn { return slowConn{conn, &slow} })
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{WriteTimeout: 2 * answerDelay}) // a write may take ten delays
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	slow.Store(true)
	// The write has eight requests. All but the first and the last have to be prepared: that is one more answer each.
	err = s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Epoch: 1, Offsets: []annals.Offset{{ID: "T|1", SeqNr: 1, Time: time.Now()}}})
	wantKind(t, err, annals.ErrUnavailable)
	slow.Store(false)
	if o, err := s.Offsets().Handled(t.Context(), "p", "T|1"); err != nil || o[0].SeqNr != 0 {
		t.Errorf("an offset of a write that failed is stored: %v, %v", o, err)
	}
}

// answerDelay is how long answers take on a slow network.
const answerDelay = 100 * time.Millisecond

// slowConn delays answers.
type slowConn struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.slow.Load() && n > 0 {
		<-time.After(answerDelay)
	}
	return n, err
}
