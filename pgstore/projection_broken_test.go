package pgstore_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
)

func appendNumbers(t *testing.T, s annals.Store, events int) {
	t.Helper()
	for n := range annals.SeqNr(events) {
		e := annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte("1")}}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: n, Events: []annals.NewEvent{e}}); err != nil {
			t.Fatal(err)
		}
	}
}

// The handlers of 40 events take longer than WriteTimeout, those of fewer do not: all events are handled, and most of them at the first try.
func TestHandlersThatTakeLongerThanWriteTimeout(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: time.Second})
	run(t, url, "CREATE TABLE handled (n BIGINT PRIMARY KEY)")
	const events = 250
	appendNumbers(t, s, events)
	calls, handled := 0, 0
	var last pgx.Tx
	r, err := projection.ExactlyOnce("p", projection.Source[int]{Store: s, Type: "T", Codec: codec.JSON[int]("n")}, s, func(ctx context.Context, tx pgx.Tx, e projection.Envelope[int]) error {
		calls++
		if tx != last {
			last, handled = tx, 0
		}
		if handled++; handled == 40 {
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := tx.Exec(ctx, "INSERT INTO handled VALUES ($1)", int64(e.SeqNr))
		return err
	}, projection.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
		t.Errorf("asked about event %d: %v", f.Event.SeqNr, f.Err)
		return projection.Retry
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "SELECT count(*) FROM handled"); n != events || calls > 3*events {
		t.Errorf("%d rows, want %d; %d calls", n, events, calls)
	}
}

// Each event changes rows that events of other ranges change, too, in another order, so that transactions deadlock: two certainly do. They are done
// again in turn, and no event is said to have failed.
func TestRowsThatRangesShare(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, with(t, url, "deadlock_timeout=100ms"), pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	run(t, url, "CREATE TABLE totals (customer INTEGER PRIMARY KEY, n BIGINT NOT NULL); INSERT INTO totals SELECT generate_series(0, 9), 0")
	const entities, each = 40, 25
	random := random.New(t)
	for i := range entities {
		c := annals.Commit{ID: annals.NewPersistenceID("T", strconv.Itoa(i*7919))}
		for range each {
			c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte("1")}})
		}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var begun, locked atomic.Int64
	both := make(chan struct{}) // the first two transactions lock a row each, and then want that of the other
	r, err := projection.ExactlyOnce("p", projection.Source[int]{Store: s, Type: "T", Codec: codec.JSON[int]("n")}, s, func(ctx context.Context, tx pgx.Tx, _ projection.Envelope[int]) error {
		row := random.IntN(10)
		if n := int(begun.Add(1)); n <= 2 {
			_, err := tx.Exec(ctx, "SELECT FROM totals WHERE customer = $1 FOR UPDATE", n)
			if row = 3 - n; err != nil {
				t.Error(err)
			}
			if locked.Add(1) == 2 {
				close(both)
			}
		}
		select {
		case <-both:
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err := tx.Exec(ctx, "UPDATE totals SET n = n + 1 WHERE customer = $1", row)
		return err
	}, projection.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
		t.Errorf("asked about %s %d: %v", f.Event.ID, f.Event.SeqNr, f.Err)
		return projection.Retry
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var repeats int64
	for try := 0; repeats == 0 || count(t, url, "SELECT sum(n)::bigint FROM totals") < entities*each; try++ {
		status, err := r.Control().Status(t.Context(), s)
		for _, r := range status.Ranges {
			if repeats = max(repeats, r.Repeats); r.Repeats > 0 && r.Cause != "SQLSTATE 40P01" {
				t.Errorf("%+v", r)
			}
		}
		if err := errors.Join(err, backoff.Wait(t.Context(), 9)); try > 1000 {
			t.Fatalf("%+v, %v", status, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := count(t, url, "SELECT sum(n)::bigint FROM totals"); n != entities*each {
		t.Errorf("%d events were counted %d times", entities*each, n)
	}
}

// A projection goes on when the server no longer refuses: rights that were taken away, a table that was renamed, a role that may not connect, as when
// pg_hba.conf refuses it.
func TestServerThatRefuses(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	owner := openAt(t, at, pgstore.Options{CreateTables: true})
	run(t, at, "CREATE TABLE handled (n BIGINT PRIMARY KEY)")
	role, as := asRole(t, at)
	grant := "GRANT ALL ON ALL TABLES IN SCHEMA " + parsed(t, at).Query().Get("search_path") + " TO " + role
	run(t, at, grant)
	s := openAt(t, as, pgstore.Options{})
	log := make(logged, 1000)
	r, err := projection.ExactlyOnce("p", projection.Source[int]{Store: s, Type: "T", Codec: codec.JSON[int]("n")}, s, func(ctx context.Context, tx pgx.Tx, e projection.Envelope[int]) error {
		_, err := tx.Exec(ctx, "INSERT INTO handled VALUES ($1)", int64(e.SeqNr))
		return err
	}, projection.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
		t.Errorf("asked about event %d: %v", f.Event.SeqNr, f.Err)
		return projection.Retry
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	events := 0
	add := func() {
		t.Helper()
		e := annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte("1")}}
		if _, err := owner.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: annals.SeqNr(events), Events: []annals.NewEvent{e}}); err != nil {
			t.Fatal(err)
		}
		events++
	}
	handled := func() {
		t.Helper()
		for try := 0; count(t, at, "SELECT count(*) FROM handled") < events; try++ {
			if err := backoff.Wait(t.Context(), 9); err != nil || try > 200 {
				t.Fatalf("event %d is not handled, %v", events, err)
			}
		}
	}
	add()
	handled()
	for _, c := range []struct{ refuse, allow string }{
		{"REVOKE ALL ON event_journal FROM " + role, grant},
		{"REVOKE ALL ON akka_projection_timestamp_offset_store FROM " + role, grant},
		{"ALTER TABLE annals_projection_epoch RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO annals_projection_epoch"},
		{"ALTER ROLE " + role + " NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'", "ALTER ROLE " + role + " LOGIN"},
	} {
		run(t, at, c.refuse)
		for len(log) > 0 {
			<-log
		}
		add()
		select {
		case <-log:
		case <-time.After(time.Minute):
			t.Fatalf("nothing is logged after %s", c.refuse)
		}
		if n := count(t, at, "SELECT count(*) FROM handled"); n >= events {
			t.Errorf("%d events are handled after %s", n, c.refuse)
		}
		run(t, at, c.allow)
		handled()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// logged gets the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}
