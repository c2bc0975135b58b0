package pgstore_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// watermarks asks a store in a database of its own for watermarks, because transactions of other tests would hold them back.
type watermarks struct {
	*testing.T
	s   *pgstore.Store
	url string // of a superuser
}

func newWatermarks(t *testing.T, o pgstore.Options) watermarks {
	t.Helper()
	url := postgres.Database(t)
	o.CreateTables = true
	return watermarks{t, openAt(t, url, o), url}
}

// session is a session of a superuser, which ends with the test.
func (h watermarks) session() *pgx.Conn {
	h.Helper()
	return session(h.T, h.url)
}

func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (h watermarks) exec(conn *pgx.Conn, sql string) {
	h.Helper()
	if _, err := conn.Exec(h.Context(), sql); err != nil {
		h.Fatal(err)
	}
}

// begin begins a transaction and returns its time.
func (h watermarks) begin(conn *pgx.Conn) (at time.Time) {
	h.Helper()
	h.exec(conn, "BEGIN")
	if err := conn.QueryRow(h.Context(), "SELECT transaction_timestamp()").Scan(&at); err != nil {
		h.Fatal(err)
	}
	return at
}

func (h watermarks) watermark() time.Time {
	h.Helper()
	at, err := h.s.Query().Watermark(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	return at
}

// clock is the server's.
func (h watermarks) clock() (now time.Time) {
	h.Helper()
	if err := h.session().QueryRow(h.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		h.Fatal(err)
	}
	return now
}

// wantAge checks that the watermark is that much before now.
func (h watermarks) wantAge(want time.Duration, when string) {
	h.Helper()
	before := h.clock()
	at := h.watermark()
	after := h.clock()
	if at.Before(before.Add(-want)) || at.After(after.Add(-want)) {
		h.Errorf("%s: the watermark is %v to %v ago, want %v", when, before.Sub(at), after.Sub(at), want)
	}
}

// lateness is the default of Options.Lateness.
const lateness = 10 * time.Second

func TestWatermarkWaitsForWriters(t *testing.T) {
	t.Parallel()
	h := newWatermarks(t, pgstore.Options{})
	h.wantAge(time.Second, "without transactions")
	err := h.s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		r, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}})
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_sleep(1.1)"); err != nil {
			return err
		}
		var began time.Time
		if err := tx.QueryRow(ctx, "SELECT transaction_timestamp()").Scan(&began); err != nil {
			return err
		}
		if at := h.watermark(); !at.Equal(began) || at.After(r.Time) {
			t.Errorf("beside a writer that began at %v, with an event of %v: got %v, want the begin", began, r.Time, at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.wantAge(time.Second, "after the writer has committed")
}

// Each Lateness that Open accepts is one with which the servers of all versions can count.
func TestWatermarkWithALongLateness(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	for _, lateness := range []time.Duration{time.Hour, 70 * 365 * 24 * time.Hour, math.MaxInt64} {
		h := watermarks{t, openAt(t, url, pgstore.Options{CreateTables: true, Lateness: lateness}), url}
		h.wantAge(time.Second, "without transactions")
		if got := h.s.Capabilities().Lateness; got != lateness {
			t.Errorf("the claim is %v, want %v", got, lateness)
		}
	}
}

func TestWatermarkWaitsOnlyForWritersOfItsTables(t *testing.T) {
	t.Parallel()
	const lateness = 1500 * time.Millisecond
	h := newWatermarks(t, pgstore.Options{WriteTimeout: lateness / 2, Lateness: lateness})
	conn := h.session()
	h.exec(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	h.exec(conn, "SELECT pg_sleep(1.7)")
	h.wantAge(lateness, "beside a long read")
	h.exec(conn, "ROLLBACK")
	h.wantAge(time.Second, "after the read")
	other := h.session()
	h.exec(other, "BEGIN; CREATE TABLE other ()")
	for _, table := range []string{"event_journal", "durable_state"} {
		began := h.begin(conn)
		h.exec(conn, "DELETE FROM "+table)
		h.exec(conn, "SELECT pg_sleep(1.7)")
		if at := h.watermark(); !at.Equal(began) {
			t.Errorf("beside a writer of %s that began at %v: got %v, want the begin", table, began, at)
		}
		h.exec(conn, "COMMIT")
	}
	h.wantAge(lateness, "beside a writer of another table")
}

// Within a transaction the server shows the sessions as they were at first. A session that has begun to write since then must count too.
func TestWatermarkWithinTransaction(t *testing.T) {
	t.Parallel()
	h := newWatermarks(t, pgstore.Options{})
	err := h.s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		if _, err := in.Query().Watermark(ctx); err != nil {
			return err
		}
		began := h.begin(h.session())
		if _, err := tx.Exec(ctx, "SELECT pg_sleep(1.1)"); err != nil {
			return err
		}
		if at, err := in.Query().Watermark(ctx); err != nil || at.After(began) {
			t.Errorf("beside a writer that began at %v: got %v, error %v", began, at, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatermarkBesideUnknownSessions(t *testing.T) {
	t.Parallel()
	h := newWatermarks(t, pgstore.Options{})
	role, url := asRole(t, with(t, h.url, "search_path=public"))
	h.exec(h.session(), "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	limited := h
	limited.s = openAt(t, url, pgstore.Options{})
	other := h.session()
	h.wantAge(time.Second, "by a superuser")
	limited.wantAge(lateness, "by a role that may not see others")
	h.exec(other, "GRANT pg_read_all_stats TO "+role)
	limited.wantAge(time.Second, "by a role that may see all")
	h.exec(other, "SET track_activities = off")
	h.wantAge(lateness, "beside a session that does not report")
	h.exec(other, "SET track_activities = on")
	h.wantAge(time.Second, "beside a session that reports again")
}

func TestWatermarkIgnoresOtherDatabases(t *testing.T) {
	t.Parallel()
	h := newWatermarks(t, pgstore.Options{})
	other := session(t, postgres.Database(t))
	h.begin(other)
	h.exec(other, "SELECT pg_sleep(1.1)")
	h.wantAge(time.Second, "beside a transaction in another database")
}

func TestWatermarkIsOneRequest(t *testing.T) {
	t.Parallel()
	seen := &queries{}
	s := openTraced(t, postgres.Database(t), seen, pgstore.Options{CreateTables: true})
	seen.take()
	if _, err := s.Query().Watermark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(seen.take()); n != 1 {
		t.Errorf("got %d statements, want 1", n)
	}
}

// A prepared transaction may write as long as Lateness allows.
func TestWatermarkBesidePreparedTransactions(t *testing.T) {
	t.Parallel()
	const lateness = 1500 * time.Millisecond
	url := startServer(t, "max_prepared_transactions=5").URL
	h := watermarks{t, openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: lateness / 2, Lateness: lateness}), url}
	conn := h.session()
	began := h.begin(conn)
	h.exec(conn, "CREATE TABLE written (); PREPARE TRANSACTION 'p'")
	h.exec(conn, "SELECT pg_sleep(1.7)")
	if at := h.watermark(); at.After(began) || at.Before(began.Add(-lateness)) {
		t.Errorf("beside a prepared transaction of %v: got %v", began, at)
	}
	h.exec(conn, "ROLLBACK PREPARED 'p'")
	h.wantAge(time.Second, "after the prepared transaction")
}

// A session takes the time of its transaction before it reports that time, and Watermark leaves time for the report. Many writers measure how
// much is needed: no event may be missing that is older than a fraction of that time.
func TestSessionsReportTheirTransactionsInTime(t *testing.T) {
	t.Parallel()
	const writers, rounds, eventsEach = 12, 150, 200 // a look reads all events before, so their number is bounded on a slow machine, too
	h := newWatermarks(t, pgstore.Options{})
	reader := h.session()
	type look struct {
		at    time.Time // the watermark without the time to report
		found map[string]bool
	}
	var looks []look
	wanted := make(chan struct{}, eventsEach)
	stop := sync.OnceFunc(func() { close(wanted) })
	defer stop()
	var wg sync.WaitGroup
	for w := range writers {
		conn := h.session()
		wg.Go(func() {
			for i := 0; ; i++ {
				if _, more := <-wanted; !more {
					return
				}
				_, err := conn.Exec(t.Context(), `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
					VALUES (0, 'T', $1, 1, transaction_timestamp(), 20, '', 'x', '')`, fmt.Sprintf("T|%d-%d", w, i))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	ids := func(after time.Time) map[string]bool {
		rows, err := reader.Query(t.Context(), "SELECT persistence_id FROM event_journal WHERE db_timestamp > $1", after)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		var id string
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { found[id] = true; return nil }); err != nil {
			t.Fatal(err)
		}
		return found
	}
	began := h.clock()
	for range rounds {
		for len(wanted) < eventsEach {
			wanted <- struct{}{}
		}
		var l look
		err := reader.QueryRow(t.Context(), `SELECT least(transaction_timestamp(), min(xact_start)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&l.at)
		if err != nil {
			t.Fatal(err)
		}
		l.found = ids(began)
		looks = append(looks, l)
	}
	stop()
	wg.Wait()
	rows, err := reader.Query(t.Context(), "SELECT persistence_id, db_timestamp FROM event_journal")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var at time.Time
	var most time.Duration
	missed, all := 0, 0
	if _, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		all++
		for _, l := range looks {
			if at.After(began) && at.Before(l.at) && !l.found[id] {
				missed++
				most = max(most, l.at.Sub(at))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("without time to report, %d looks miss %d of %d events, by at most %v", rounds, missed, all, most)
	if most > pgstore.ReportTime/4 {
		t.Errorf("a session reported its transaction after %v: ReportTime is %v", most, pgstore.ReportTime)
	}
}
