package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
)

// following is a projection of the events of type T in s, or of the states.
type following struct {
	*testing.T
	s      *pgstore.Store
	runner *projection.Runner

	mu      sync.Mutex
	handled map[annals.PersistenceID][]annals.SeqNr
}

func newFollowing(t *testing.T, s *pgstore.Store, states bool) *following {
	t.Helper()
	f := &following{T: t, s: s, handled: map[annals.PersistenceID][]annals.SeqNr{}}
	bytes := func(b []byte) ([]byte, error) { return b, nil }
	plain := codec.Of(text("").SerializerID, text("").Manifest, bytes, bytes)
	handle := func(_ context.Context, _ memstore.Tx, e projection.Envelope[[]byte]) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.handled[e.ID] = append(f.handled[e.ID], e.SeqNr)
		return nil
	}
	var err error
	f.runner, err = projection.ExactlyOnce("p", projection.Source[[]byte]{Store: s, Type: "T", Codec: plain, States: states}, memstore.New(), handle,
		projection.Options{Ranges: 1, Poll: 100 * time.Millisecond, Audit: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs the projection until the test ends.
func (f *following) run() {
	ended := make(chan error, 1)
	go func() { ended <- f.runner.Run(f.Context()) }()
	f.Cleanup(func() {
		if err := <-ended; err != nil {
			f.Error(err)
		}
	})
}

// await awaits that the projection is as it is wanted to be.
func (f *following) await(what string, done func(projection.Status) bool) {
	f.Helper()
	for until := time.Now().Add(time.Minute); ; {
		status, err := f.runner.Control().Status(f.Context(), f.s)
		if err != nil && !annals.SafeToRetry(err) {
			f.Fatal(err)
		}
		if err == nil && done(status) {
			return
		}
		if time.Now().After(until) {
			f.Fatalf("%s: %+v", what, status)
		}
		_ = backoff.Wait(f.Context(), 6) // as long as a request
	}
}

// wants checks that the events of an entity are handled once, in their order.
func (f *following) wants(id annals.PersistenceID, last annals.SeqNr) {
	f.Helper()
	var want []annals.SeqNr
	for n := annals.SeqNr(1); n <= last; n++ {
		want = append(want, n)
	}
	f.await(fmt.Sprint(id), func(projection.Status) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.handled[id]) >= int(last)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.handled[id]; fmt.Sprint(got) != fmt.Sprint(want) {
		f.Errorf("%s: handled %v, want %v", id, got, want)
	}
}

// A follower that is connected to a standby which is behind waits for what the standby has not replayed. What was committed on the primary later than
// Lateness promises is handed over late.
func TestFollowAStandbyThatIsBehind(t *testing.T) {
	t.Parallel()
	const lateness = 1500 * time.Millisecond
	primary := startServer(t)
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Stop)
	config, err := pgxpool.ParseConfig(primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	var server atomic.Pointer[string] // that new connections lead to
	address := parsed(t, primary.URL).Host
	server.Store(&address)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *server.Load())
	}
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{CreateTables: true, WriteTimeout: lateness / 2, Lateness: lateness})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h, f := watermarks{t, s, primary.URL}, newFollowing(t, s, false)
	f.run()
	writer := openAt(t, primary.URL, pgstore.Options{})
	appendOne(t, writer, "T|1", 0)
	f.wants("T|1", 1)

	onStandby := session(t, standby.URL)
	address = parsed(t, standby.URL).Host
	server.Store(&address)
	p.Reset()
	r := appendOne(t, writer, "T|1", 1)
	for at := h.watermark(); at.Before(r.Time.Add(-lateness)); at = h.watermark() {
		h.exec(onStandby, "SELECT pg_sleep(0.01)")
	}
	reading := newFollowing(t, openAt(t, standby.URL, pgstore.Options{ReadOnly: true}), false)
	reading.run()
	reading.wants("T|1", 2)
	h.exec(onStandby, "SELECT pg_wal_replay_pause()")
	h.exec(onStandby, "SELECT pg_sleep(0.1)")
	later := appendOne(t, writer, "T|1", 2)
	for i := range 20 {
		appendOne(t, writer, annals.PersistenceID(fmt.Sprint("T|later-", i)), 0)
		h.exec(onStandby, "SELECT pg_sleep(0.2)")
	}
	if at := h.watermark(); !at.Before(later.Time.Add(-lateness)) {
		t.Errorf("on a standby that has not replayed an event of %v: the watermark is %v", later.Time, at)
	}
	f.await("a warning", func(s projection.Status) bool { return strings.Contains(s.Ranges[0].Warning, "the standby is behind") })
	h.exec(onStandby, "SELECT pg_wal_replay_resume()")
	for i := range 20 {
		f.wants(annals.PersistenceID(fmt.Sprint("T|later-", i)), 1)
	}
	f.wants("T|1", 3)
	f.await("nothing was late", func(s projection.Status) bool { return s.Late == 0 })

	conn := h.session() // on the primary
	began := h.begin(conn)
	n := annals.SeqNr(3)
	f.await("the position has passed the begin of a transaction", func(s projection.Status) bool {
		appendOne(t, writer, "T|1", n)
		n++
		return s.Ranges[0].Through.Time.After(began)
	})
	if err := writeForeign(t.Context(), conn, 0, annals.Commit{ID: "T|old", Events: []annals.NewEvent{{Payload: text("x")}}}); err != nil {
		t.Fatal(err)
	}
	h.exec(conn, "COMMIT")
	f.wants("T|old", 1)
	f.await("an event was late", func(s projection.Status) bool { return s.Late == 1 && s.Parked == 0 })
	f.wants("T|1", n)
}

// Events that logical replication stores have times that followers may have passed. So none follows while there is a subscription, also not
// while it is disabled: it brings them later.
func TestFollowALogicalReplica(t *testing.T) {
	t.Parallel()
	primary := startServer(t, "wal_level=logical")
	writer := openAt(t, primary.URL, pgstore.Options{CreateTables: true})
	h := watermarks{t, writer, primary.URL}
	h.exec(h.session(), "CREATE PUBLICATION p FOR TABLE event_journal")
	replica := newWatermarks(t, pgstore.Options{})
	subscriber := replica.session()
	subscription := strings.ToLower(t.Name())
	replica.exec(subscriber, fmt.Sprintf("CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION p", subscription, primary.URL))
	t.Cleanup(func() {
		if _, err := subscriber.Exec(context.Background(), "DROP SUBSCRIPTION IF EXISTS "+subscription); err != nil {
			t.Error(err)
		}
	})
	f := newFollowing(t, replica.s, false)
	refused := func(while string) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		if err := f.runner.Run(ctx); !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), subscription) {
			t.Errorf("%s: got error %v, want ErrUnsupported with the name of the subscription", while, err)
		}
	}
	refused("a subscription writes the table")
	replica.exec(subscriber, fmt.Sprintf("ALTER SUBSCRIPTION %s DISABLE", subscription))
	refused("it is disabled")
	appendOne(t, writer, "T|1", 0)
	replica.exec(subscriber, fmt.Sprintf("ALTER SUBSCRIPTION %s ENABLE", subscription))
	for count(t, replica.url, "SELECT count(*) FROM event_journal") == 0 {
		replica.exec(subscriber, "SELECT pg_sleep(0.05)")
	}
	replica.exec(subscriber, "DROP SUBSCRIPTION "+subscription)
	if err := f.runner.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wants("T|1", 1)
	h.exec(h.session(), "CREATE PUBLICATION states FOR TABLE durable_state")
	replica.exec(subscriber, fmt.Sprintf("CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION states", subscription, primary.URL))
	refused("a subscription writes the table of states")
}
