package pgstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/storetest"
)

// behind is o for the tables at url, where a pooler does not pass on the search_path.
func behind(tb testing.TB, url string, o pgstore.Options) pgstore.Options {
	o.Tables.Schema = parsed(tb, url).Query().Get("search_path")
	return o
}

// pooledConfig is the configuration of the suite behind a pooler.
func pooledConfig(t *testing.T) storetest.Config {
	p := postgres.StartPooler(t, postgres.Schema(t))
	var by routes
	openAt := func(tb testing.TB, url string, o annals.Observer) annals.Store {
		s := by.open(tb, p.URL(tb, url), behind(tb, url, pgstore.Options{Observer: o}))
		urls.Store(s, url)
		return s
	}
	c := config(pgstore.Options{})
	c.OpenObserved = func(tb testing.TB, o annals.Observer) annals.Store {
		return openAt(tb, tables(tb, pgstore.Options{}), o)
	}
	c.Open = func(tb testing.TB) annals.Store { return c.OpenObserved(tb, nil) }
	c.Reopen = func(tb testing.TB, s annals.Store) annals.Store { return openAt(tb, urls.of(s), nil) }
	c.LoseAnswer = func(tb testing.TB, s annals.Store) func() { return by.lose(tb, s, postgres.Commit) }
	c.Short = true
	return c
}

func TestConformanceBehindAPooler(t *testing.T) { storetest.Run(t, pooledConfig(t)) }

// pooledDatabase is a new database with the store's tables, and a pooler in front of it.
func pooledDatabase(t *testing.T, settings ...string) (*postgres.Pooler, string) {
	t.Helper()
	u := postgres.Database(t)
	openAt(t, u, pgstore.Options{CreateTables: true})
	return postgres.StartPooler(t, u, settings...), u
}

// noteSessions records the settings of each write, and its session.
const noteSessions = `CREATE TABLE noted (settings TEXT, pid INT);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO noted VALUES (concat_ws(' ', current_setting('synchronous_commit'), current_setting('transaction_isolation'),
			current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout')), pg_backend_pid()); RETURN NEW; END $$;
	CREATE TRIGGER note AFTER INSERT OR UPDATE ON event_journal FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note AFTER INSERT OR UPDATE ON durable_state FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note AFTER INSERT OR UPDATE ON snapshot FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note AFTER INSERT OR UPDATE ON akka_projection_timestamp_offset_store FOR EACH ROW EXECUTE FUNCTION note()`

// Two stores share two sessions of the server with programs that do not set them up. Each write has the settings that it needs, whatever the
// database says, and leaves none behind.
func TestSessionsThatAreShared(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t, "default_pool_size=2")
	run(t, u, noteSessions)
	name := strings.TrimPrefix(parsed(t, u).Path, "/")
	run(t, u, "ALTER DATABASE "+name+" SET synchronous_commit = off; ALTER DATABASE "+name+" SET default_transaction_isolation = serializable")
	through := p.URL(t, u)
	useSessions(t, through, 2)
	var wg sync.WaitGroup
	const writers, each = 6, 4
	for i := range 2 {
		s := openAt(t, through, pgstore.Options{})
		for w := range writers {
			wg.Go(func() {
				id := annals.PersistenceID(fmt.Sprintf("T|%d-%d", i, w))
				for n := range annals.SeqNr(each) {
					if err := writeAll(t.Context(), s, id, n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	rows, sessions, wrong := 0, 0, ""
	query(t, u, `SELECT count(*), count(DISTINCT pid),
		coalesce(string_agg(DISTINCT settings, '; ') FILTER (WHERE settings NOT IN ('on read committed 5s 5s 0', 'on read committed 5s 5s 200ms')), '') FROM noted`,
		nil, &rows, &sessions, &wrong)
	if want := 2 * writers * each * 8; rows != want || sessions != 2 || wrong != "" {
		t.Errorf("%d writes in %d sessions, want %d in 2; some with the settings %s", rows, sessions, want, wrong)
	}
	for range 4 { // each session is used twice
		var left string
		query(t, with(t, through, "default_query_exec_mode=exec"), `SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('transaction_isolation'),
			current_setting('statement_timeout'), current_setting('lock_timeout'), (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()))`, nil, &left)
		if left != "off serializable 0 0 0 0" {
			t.Errorf("the store has left a session with %s", left)
		}
	}
}

// useSessions uses n sessions at the same time. A pooler opens another one only for what waits for those that it has.
func useSessions(t *testing.T, url string, n int) {
	t.Helper()
	for range n {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
	}
}

// writeAll makes a write of each kind, for the n-th time: 3 events, a state, a snapshot, an event in a transaction and beside it two positions.
func writeAll(ctx context.Context, s *pgstore.Store, id annals.PersistenceID, n annals.SeqNr) error {
	e := annals.NewEvent{Payload: text("e")}
	snapshot := annals.Snapshot{ID: id + "+", SeqNr: 2*n + 2, Payload: text("s")}
	_, one := s.Journal().Append(ctx, annals.Commit{ID: id, After: n, Events: []annals.NewEvent{e}})
	_, two := s.Journal().Append(ctx, annals.Commit{ID: id + "+", After: 2 * n, Events: []annals.NewEvent{e, e}, Snapshot: &snapshot})
	_, state := s.States().Put(ctx, annals.StateWrite{ID: id, After: n, Payload: text("x")})
	tx := s.InTx(ctx, func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
		_, err := in.Journal().Append(ctx, annals.Commit{ID: id + "tx", After: n, Events: []annals.NewEvent{e}})
		return err
	})
	offsets := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{
		{Time: time.Now(), ID: id, SeqNr: n + 1}, {Time: time.Now(), ID: id + "+", SeqNr: n + 1}}})
	return errors.Join(one, two, state, tx, offsets)
}

// Under load the pooler loses its sessions, pauses, reads its settings anew and is killed, the connections to it break, and answers get lost.
// Every acknowledged write is stored once.
func TestPoolerFaults(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t, "default_pool_size=4")
	proxy := newProxy(t, p.URL(t, u))
	l := startLoad(t, openAt(t, with(t, proxy.URL, "pool_max_conns=8"), pgstore.Options{}))
	command := func(commands ...string) {
		for _, c := range commands {
			if err := p.Command(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	}
	for name, fault := range map[string]func(){
		"sessions are terminated": func() {
			run(t, u, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		},
		"new sessions":  func() { command("RECONNECT") },
		"reload":        func() { command("RELOAD") },
		"pause":         func() { command("PAUSE", "RESUME") },
		"kill":          func() { p.Kill(); mustStart(t, p) },
		"broken":        proxy.Cut,
		"answers":       func() { <-lose(proxy, postgres.Commit) },
		"commits":       func() { <-once(proxy, postgres.Commit, postgres.Fault{Refuse: true}) },
		"lost sessions": func() { <-once(proxy, postgres.Write, postgres.Fault{Terminate: true}) },
	} {
		t.Log(name)
		fault()
		l.await(40)
		proxy.SetRule(nil)
	}
	l.check()
}

func mustStart(t *testing.T, p *postgres.Pooler) {
	t.Helper()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Two runners of a projection share four sessions with the writers. The pooler is killed meanwhile. Each event is handled once.
func TestProjectionBehindAPooler(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t, "default_pool_size=4")
	run(t, u, "CREATE TABLE handled (id TEXT, n BIGINT, PRIMARY KEY (id, n))")
	through := with(t, p.URL(t, u), "pool_max_conns=8")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	const runners = 2
	for range runners {
		s := openAt(t, through, pgstore.Options{})
		r, err := projection.ExactlyOnce("p", projection.Source[string]{Store: s, Type: "Events", Codec: codec.JSON[string]("n")}, s,
			func(ctx context.Context, tx pgx.Tx, e projection.Envelope[string]) error {
				_, err := tx.Exec(ctx, "INSERT INTO handled VALUES ($1, $2)", string(e.ID), int64(e.SeqNr))
				return err
			}, projection.Options{Ranges: 4, Lease: 300 * time.Millisecond, Poll: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- r.Run(ctx) }()
	}
	const entities, each = 10, 10
	s := openAt(t, through, pgstore.Options{})
	for n := range annals.SeqNr(each) {
		for i := range entities {
			c := annals.Commit{ID: annals.NewPersistenceID("Events", strconv.Itoa(i)), After: n, WriteID: annals.NewWriteID(),
				Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte(`"x"`)}}}}
			for try := 0; ; try++ {
				if _, err := s.Journal().Append(t.Context(), c); err == nil {
					break
				} else if !annals.SafeToRetry(err) || backoff.Wait(t.Context(), try) != nil {
					t.Fatal(err)
				}
			}
		}
		if n == each/2 {
			p.Kill()
			mustStart(t, p)
		}
	}
	for try := 0; count(t, u, "SELECT count(*) FROM handled") < entities*each; try++ {
		if err := backoff.Wait(t.Context(), 6); err != nil || try > 1000 {
			t.Fatalf("events are not handled: %v", err)
		}
	}
	cancel()
	for range runners {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// What an append, a state and a transaction ask of the server: behind a pooler a write is a transaction of its own.
func TestRequests(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t)
	begin := "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT"
	for _, c := range []struct {
		name, url   string
		write, inTx []string // how the requests begin
	}{
		{"direct", u, []string{"INSERT"}, []string{"begin", "SAVEPOINT", "INSERT", "RELEASE", "commit"}},
		{"pooled", p.URL(t, u), []string{begin, "INSERT", "commit"}, []string{begin, "SAVEPOINT", "INSERT", "RELEASE", "commit"}},
	} {
		proxy := newProxy(t, c.url)
		s := openAt(t, with(t, proxy.URL, "pool_max_conns=2"), pgstore.Options{}) // one connection for groups, one for the others
		event := []annals.NewEvent{{Payload: text("e")}}
		id := annals.PersistenceID("T|" + c.name)
		inTx := func(n annals.SeqNr) error {
			return s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
				_, err := in.Journal().Append(ctx, annals.Commit{ID: id + "tx", After: n, Events: event})
				return err
			})
		}
		writeTwo := func(n annals.SeqNr) error {
			_, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: n, Events: event})
			return err
		}
		put := func(n annals.SeqNr) error { return put(t, s, id, n, text("x")) }
		for what, w := range map[string]struct {
			write func(n annals.SeqNr) error
			want  []string
		}{"append": {writeTwo, c.write}, "put": {put, append(slices.Clone(c.write[:len(c.write)/2]), append([]string{"UPDATE"}, c.write[len(c.write)/2+1:]...)...)}, "transaction": {inTx, c.inTx}} {
			if err := errors.Join(w.write(0), w.write(1)); err != nil { // statements are described once for each connection
				t.Fatal(err)
			}
			var mu sync.Mutex
			var got []string
			proxy.SetRule(func(r postgres.Request) postgres.Fault {
				if sql := strings.TrimSpace(r.SQL); !strings.Contains(sql, "pg_notify") && !strings.HasPrefix(sql, "--") {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, sql)
				}
				return postgres.Fault{}
			})
			err := w.write(2)
			proxy.SetRule(nil)
			mu.Lock()
			if err != nil || !slices.EqualFunc(got, w.want, strings.HasPrefix) {
				t.Errorf("%s, %s: %q, %v, want %q", c.name, what, got, err, w.want)
			}
			mu.Unlock()
		}
	}
}

// Watchers behind a pooler are woken for their own store at once, and for others every second.
func TestWatchBehindAPooler(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t)
	s := openAt(t, p.URL(t, u), pgstore.Options{})
	signals, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	appendOne(t, s, "T|1", 0)
	<-signals
	<-signals // nothing was written
	direct := openAt(t, u, pgstore.Options{})
	if signals, err = direct.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{}); err != nil {
		t.Fatal(err)
	}
	<-signals // it listens
	appendOne(t, s, "T|1", 1)
	<-signals // the notification arrived through the pooler
}

// Poolers that keep sessions, and pools that avoid prepared statements.
func TestPoolers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ setting, mode string }{
		"sessions":        {setting: "pool_mode=session"},
		"transactions":    {mode: "cache_statement"},
		"describe":        {mode: "describe_exec"},
		"exec":            {mode: "exec"},
		"simple protocol": {mode: "simple_protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tables(t, pgstore.Options{})
			p := postgres.StartPooler(t, at, c.setting)
			s := openAt(t, inMode(t, p.URL(t, at), cmp.Or(c.mode, "cache_statement")), behind(t, at, pgstore.Options{}))
			for n := range annals.SeqNr(3) {
				if err := writeAll(t.Context(), s, "T|1", n); err != nil {
					t.Error(err)
				}
				one := 0
				if err := s.DB().QueryRow(t.Context(), "SELECT $1::int", 1).Scan(&one); one != 1 || err != nil {
					t.Errorf("got %d, %v", one, err)
				}
			}
			if got, want := all(t, s, "T|1"), 3; len(got) != want {
				t.Errorf("%d events, want %d", len(got), want)
			}
		})
	}
}

// A pooler without transactions is found out when the store is opened, not by the first write.
func TestAPoolerWithoutTransactions(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t, "pool_mode=statement")
	_, err := pgstore.Open(t.Context(), pool(t, p.URL(t, u)), pgstore.Options{})
	wantKind(t, err, annals.ErrUnavailable)
	if !strings.Contains(fmt.Sprint(err), "statement pooling") {
		t.Errorf("the error does not name the cause: %v", err)
	}
}

// A setting of the URL that a pooler leaves out is an error, and so is one that it refuses.
func TestSettingsThatAPoolerDoesNotPassOn(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"", "ignore_startup_parameters=search_path,synchronous_commit,options\napplication_name_add_host=1"} {
		p, u := pooledDatabase(t, setting)
		for _, c := range []struct{ parameter, value, named string }{
			{"search_path", "elsewhere", "search_path"},
			{"synchronous_commit", "local", "synchronous_commit"},
			{"options", `-c application_name=x --search-path=else\ where`, "search_path"},
			{"options", "-csearch_path=elsewhere", "search_path"},
		} {
			_, err := pgstore.Open(t.Context(), pool(t, with(t, p.URL(t, u), c.parameter+"="+c.value)), pgstore.Options{})
			if setting == "" {
				c.named = c.parameter // PgBouncer refuses it
			} else {
				wantKind(t, err, annals.ErrInvalid)
			}
			if !strings.Contains(fmt.Sprint(err), c.named) {
				t.Errorf("%q, %s=%s: %v", setting, c.parameter, c.value, err)
			}
		}
		openAt(t, with(t, p.URL(t, u), "application_name=orders"), pgstore.Options{})
		if setting != "" {
			openAt(t, with(t, p.URL(t, u), "options=-c synchronous_commit=on reference=orders"), pgstore.Options{})
		}
	}
}

// The address of an open store leads to a pooler later: no write is made without its settings.
func TestAPoolerTakesThePlaceOfTheServer(t *testing.T) {
	t.Parallel()
	p, u := pooledDatabase(t)
	config, err := pgxpool.ParseConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	var replaced atomic.Bool
	port, err := strconv.ParseUint(parsed(t, p.URL(t, u)).Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if replaced.Load() {
			c.Port = uint16(port)
		}
		return nil
	}
	config.AfterRelease = func(*pgx.Conn) bool { return false } // each call makes a new connection
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := pgstore.Open(t.Context(), pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	replaced.Store(true)
	_, err = s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("e")}}})
	wantKind(t, err, annals.ErrUnavailable)
	if !strings.Contains(fmt.Sprint(err), "open the store again") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

// Schemas are made and looked at behind a pooler, and stores by URL close their pools.
func TestMigrateBehindAPooler(t *testing.T) {
	t.Parallel()
	u := postgres.Database(t)
	p := postgres.StartPooler(t, u)
	through := p.URL(t, u)
	o := pgstore.Options{Tables: pgstore.Tables{Schema: "made"}}
	made, err := newSetup(t, through, o).Migrate(t.Context())
	if len(made) == 0 || err != nil {
		t.Fatalf("made %q, %v", made, err)
	}
	for range 3 {
		if left, err := newSetup(t, through, o).Pending(t.Context()); len(left) > 0 || err != nil {
			t.Errorf("left %q, %v", left, err)
		}
	}
	s, err := annals.Openers{"postgres": pgstore.Options{}.OpenURL}.Open(t.Context(), with(t, through, "schema=made"))
	if err != nil {
		t.Fatal(err)
	}
	appendOne(t, s, "T|1", 0)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.(*pgstore.Store).DB().Ping(t.Context()); err == nil {
		t.Error("the pool is open")
	}
}
