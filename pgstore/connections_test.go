package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
)

var commands = flag.Int("commands", 4, "commands of each of fifty processes to each of its entities")

// fifty processes share a server with the default max_connections, 100, of which 97 are for users.
const (
	fifty    = 50
	forUsers = 97
	ofEach   = 3 // entities of a process, and at most so many connections
)

// tally adds numbers. Its state is their sum. Each process has entities of a type of its own.
func tally(process int) behavior.EventSourced[int, int, int, int] {
	return behavior.EventSourced[int, int, int, int]{
		Type:   fmt.Sprint("Tally", process),
		Events: codec.JSON[int]("added"),
		Decide: func(_, add int) ([]int, error) { return []int{add}, nil },
		Evolve: func(sum, added int) int { return sum + added },
		Reply:  func(sum, _ int, _ []int) int { return sum },
	}
}

// defaultServer is a new server with the default max_connections. It returns the URL of a database with the store's tables, for a role without
// privileges, and that of the superuser.
func defaultServer(t *testing.T) (url, super string) {
	t.Helper()
	server, err := postgres.Start(t.Context(), "max_connections=100")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	run(t, server.URL, "CREATE ROLE app LOGIN")
	run(t, server.URL, "CREATE DATABASE app OWNER app")
	super = strings.Replace(server.URL, "/postgres?", "/app?", 1)
	url = strings.Replace(super, "postgres@", "app@", 1)
	p := pool(t, url)
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	p.Close()
	return url, super
}

// sampler counts the connections of processes until its context ends.
type sampler struct {
	most, mostOfOne, listening int
	err                        error
}

func (s *sampler) run(ctx context.Context, conn *pgx.Conn) {
	for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		var all, one, listening int
		err := conn.QueryRow(ctx, `SELECT coalesce(sum(n), 0)::int, coalesce(max(n), 0)::int, coalesce(sum(l), 0)::int FROM (SELECT count(*) AS n, count(*) FILTER (WHERE query LIKE 'LISTEN%') AS l
			FROM pg_stat_activity WHERE usename = 'app' GROUP BY application_name) each`).Scan(&all, &one, &listening)
		if err != nil && ctx.Err() == nil {
			s.err = err
			return
		}
		s.most, s.mostOfOne, s.listening = max(s.most, all), max(s.mostOfOne, one), max(s.listening, listening)
	}
}

// Fifty processes, each with a runtime, a watch and a projection of the events of another process, work on one server with the default
// max_connections, although each may use three connections at once: the transactions of the projection read the store. Every event is handled
// once, and every process gets its answers and its signals.
func TestFiftyProcesses(t *testing.T) {
	t.Parallel()
	url, super := defaultServer(t)
	run(t, url, "CREATE TABLE handled (id TEXT, seq_nr BIGINT, process INT, PRIMARY KEY (id, seq_nr))")
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var sampled sampler
	var processes, sampling sync.WaitGroup
	sampleCtx, stopSampling := context.WithCancel(ctx)
	watching, reader := session(t, super), session(t, super) // the server has none left for a while later
	sampling.Go(func() { sampled.run(sampleCtx, watching) })
	var working, done sync.WaitGroup
	working.Add(fifty)
	done.Add(1)
	for i := range fifty {
		processes.Go(func() {
			p := member{i, with(t, url, "pool_max_conns=1", "application_name="+strconv.Itoa(i))}
			if err := p.work(ctx, &working, &done); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	working.Wait()
	total := fifty * ofEach * *commands
	tick := time.NewTicker(20 * time.Millisecond)
	for n := 0; n < total && ctx.Err() == nil; <-tick.C {
		if err := reader.QueryRow(ctx, "SELECT count(*) FROM handled").Scan(&n); err != nil {
			t.Error(err)
			break
		}
	}
	done.Done()
	processes.Wait()
	stopSampling()
	sampling.Wait()
	n := -1
	if err := reader.QueryRow(t.Context(), "SELECT count(*) FROM handled").Scan(&n); n != total {
		t.Errorf("%d events were handled, want %d: %v", n, total, err)
	}
	if sampled.err != nil || sampled.most < fifty || sampled.most > forUsers || sampled.mostOfOne > ofEach || sampled.listening == 0 {
		t.Errorf("connections: %+v", sampled)
	}
}

// member is one of fifty processes.
type member struct {
	nr  int
	url string
}

// work runs the process until done.
func (p member) work(ctx context.Context, working, done *sync.WaitGroup) (err error) {
	worked := sync.OnceFunc(working.Done)
	defer worked()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	open := annals.Openers{"postgres": pgstore.Options{}.OpenURL}.Open
	var opened annals.Store
	for opened, err = open(ctx, p.url); annals.SafeToRetry(err) && backoff.Wait(ctx, 9) == nil; {
		opened, err = open(ctx, p.url)
	}
	if err != nil {
		return err
	}
	s := opened.(*pgstore.Store)
	defer func() { err = errors.Join(err, s.Close()) }()
	signals, err := s.Unwrap().(ability.Watcher).Watch(ctx, annals.Filter{})
	if err != nil {
		return err
	}
	own, other := tally(p.nr), tally((p.nr+1)%fifty)
	runner, err := projection.ExactlyOnce(other.Type, projection.Source[int]{Store: s, Type: other.Type, Codec: other.Events}, s, func(ctx context.Context, tx pgx.Tx, e projection.Envelope[int]) error {
		if last, err := s.Journal().LastSeqNr(ctx, e.ID); err != nil || last < e.SeqNr { // over another connection
			return fmt.Errorf("event %d of %s, of %d: %w", e.SeqNr, e.ID, last, err)
		}
		_, err := tx.Exec(ctx, "INSERT INTO handled VALUES ($1, $2, $3)", string(e.ID), int64(e.SeqNr), p.nr)
		return err
	}, projection.Options{Ranges: 1})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	tallies, err := entity.New(s, own, entity.Options{})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	faults := make(chan error, ofEach)
	for i := range ofEach {
		wg.Go(func() {
			for n := range *commands {
				if sum, err := tallies.Ask(ctx, strconv.Itoa(i), 1); err != nil || sum != n+1 {
					faults <- fmt.Errorf("the answer is %d, not %d: %w", sum, n+1, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(faults)
	worked()
	done.Wait()
	select {
	case <-signals:
	default:
		err = errors.New("no signal")
	}
	err = errors.Join(<-faults, err, tallies.Shutdown(ctx))
	stop()
	return errors.Join(err, <-ended)
}

// limited is a new role that may have so many connections to a schema with the store's tables, and the URL for a pool of one. The superuser, who
// has the other URL, has no limit.
func limited(t *testing.T, most int) (url, super string) {
	t.Helper()
	super = postgres.Schema(t)
	openAt(t, super, pgstore.Options{CreateTables: true})
	schema := parsed(t, super).Query().Get("search_path")
	role, as := asRole(t, super)
	run(t, super, fmt.Sprintf("ALTER ROLE %[2]s CONNECTION LIMIT %[3]d; GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[2]s", schema, role, most))
	return with(t, as, "pool_max_conns=1", "application_name="+schema), super
}

// sessionsOf counts the sessions of the store at url whose last statement is like one.
func sessionsOf(t *testing.T, url, super string) func(like string) int {
	conn, schema := session(t, super), parsed(t, url).Query().Get("search_path")
	return func(like string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE $2", schema, like).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// Where the server refuses a connection for more than signals, the one that listens is closed. Watches are woken nevertheless, and the store
// listens again when enough are left.
func TestListenerGivesWay(t *testing.T) {
	t.Parallel()
	const most = 20 // a twentieth of the server's connections, and some
	url, super := limited(t, most)
	s := openAt(t, url, pgstore.Options{})
	signals, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	sessions := sessionsOf(t, url, super)
	listens := func(want int) {
		t.Helper()
		for sessions("LISTEN%") != want {
		}
	}
	listens(1)
	bare := strings.Replace(url, "&pool_max_conns=1", "", 1)
	var others []*pgx.Conn
	for range most - 2 {
		others = append(others, session(t, bare))
	}
	appendOne(t, s, "T|1", 0)
	if _, err := pgx.Connect(t.Context(), bare); err == nil {
		t.Fatal("the server has enough connections left: nothing is tested")
	}
	if err := s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, _ annals.Store) error {
		_, err := s.Journal().LastSeqNr(ctx, "T|1")
		return err
	}); err != nil {
		t.Error(err)
	}
	listens(0)
	for len(signals) > 0 {
		<-signals
	}
	<-signals // of a look, not of a write
	for _, c := range others {
		_ = c.Close(t.Context())
	}
	listens(1)
}

// A store listens where its role may have few connections, but enough.
func TestListensWithinALimit(t *testing.T) {
	t.Parallel()
	url, super := limited(t, 3)
	s := openAt(t, url, pgstore.Options{})
	if _, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{}); err != nil {
		t.Fatal(err)
	}
	sessions := sessionsOf(t, url, super)
	for sessions("LISTEN%") == 0 {
	}
}

// What a transaction waits for gets the connection that the store has listened with, where the server has no other one.
func TestAppendTakesTheListenersConnection(t *testing.T) {
	t.Parallel()
	url, super := limited(t, 2)
	s := openAt(t, url, pgstore.Options{})
	if _, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{}); err != nil {
		t.Fatal(err)
	}
	sessions := sessionsOf(t, url, super)
	for sessions("LISTEN%") == 0 {
	}
	if err := s.InTx(t.Context(), func(context.Context, pgx.Tx, annals.Store) error {
		appendOne(t, s, "T|1", 0) // of another goroutine, say
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A store with one connection does everything over it. What a transaction of the program, or a change handler, waits for gets a second one for a
// while: reads of the store, and appends.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	url, super := limited(t, 2)
	handled := 0
	var s *pgstore.Store
	s = openAt(t, url, pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"S": {OnChange: func(ctx context.Context, _ pgx.Tx, _ annals.State) error {
		handled++
		_, err := s.Journal().LastSeqNr(ctx, "T|1")
		return err
	}}}})
	sessions := sessionsOf(t, url, super)
	for n := range annals.SeqNr(3) {
		appendOne(t, s, "T|1", n)
		if err := writeAll(t.Context(), s, "T|2", n); err != nil {
			t.Error(err)
		}
		all(t, s, "T|1")
	}
	if n := sessions("%"); n != 1 {
		t.Errorf("%d connections, want one", n)
	}
	for n := range annals.SeqNr(3) {
		mustPut(t, s, "S|1", n, text("x"))
		err := s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
			last, err := s.Journal().LastSeqNr(ctx, "T|3")
			if err != nil || last != 2*n {
				return fmt.Errorf("the last number is %d: %w", last, err)
			}
			if _, err := in.Journal().Append(ctx, annals.Commit{ID: "T|3", After: last, Events: []annals.NewEvent{{Payload: text("x")}, {Payload: text("y")}}}); err != nil {
				return err
			}
			appendOne(t, s, "T|1", 3+n) // of another goroutine, say
			all(t, s, "T|1")
			_, err = s.Sizes(ctx)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if handled != 3 || len(all(t, s, "T|3")) != 6 {
		t.Errorf("%d calls of the change handler", handled)
	}
	for sessions("%") > 1 { // the second one is given back
	}
}

// In a pool of one, writes have their own settings for a transaction. The session keeps those of the program, also after a write that failed.
func TestOneSession(t *testing.T) {
	t.Parallel()
	url, _ := limited(t, 2)
	s := openAt(t, with(t, url, "default_transaction_isolation=serializable", "synchronous_commit=off", "lock_timeout=1234"), pgstore.Options{})
	const show = "SELECT concat_ws(' ', current_setting('transaction_isolation'), current_setting('synchronous_commit'), current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'))"
	mine := errors.New("of the function")
	for i, fails := range []error{nil, mine} {
		appendOne(t, s, "T|1", annals.SeqNr(i))
		_ = writeAll(t.Context(), s, "T|2", 0) // the second one is a conflict
		if err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, _ annals.Store) error {
			var got string
			if err := tx.QueryRow(ctx, show).Scan(&got); err != nil || got != "read committed on 5s 5s 1234ms" {
				t.Errorf("in a transaction: %s, %v", got, err)
			}
			return fails
		}); !errors.Is(err, fails) {
			t.Error(err)
		}
		var got string
		if err := s.DB().QueryRow(t.Context(), show).Scan(&got); err != nil || got != "serializable off 0 0 1234ms" {
			t.Errorf("after writes: %s, %v", got, err)
		}
	}
}
