package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// with is u with further parameters.
func with(t *testing.T, u string, parameters ...string) string {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	q := parsed.Query()
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		q.Set(name, value)
	}
	parsed.RawQuery = q.Encode()
	return parsed.String()
}

// noteSettings records the synchronous_commit of each write.
const noteSettings = `CREATE TABLE settings (value TEXT);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO settings VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
	CREATE TRIGGER note BEFORE INSERT ON event_journal FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note BEFORE INSERT ON durable_state FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note BEFORE INSERT ON snapshot FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER note BEFORE INSERT ON akka_projection_timestamp_offset_store FOR EACH ROW EXECUTE FUNCTION note()`

// An acknowledged write has been flushed, also where sessions have synchronous_commit=off by default. Other levels are left as they are,
// and with NonDurable all are.
func TestAcknowledgedIsFlushed(t *testing.T) {
	t.Parallel()
	for inherited, raised := range map[string]string{"off": "on", "on": "on", "local": "local", "remote_write": "remote_write", "remote_apply": "remote_apply"} {
		for nonDurable, want := range map[bool]string{false: raised, true: inherited} {
			t.Run(fmt.Sprint(inherited, " ", nonDurable), func(t *testing.T) {
				t.Parallel()
				u := postgres.Schema(t)
				openAt(t, u, pgstore.Options{CreateTables: true})
				run(t, u, noteSettings)
				s := openAt(t, with(t, u, "synchronous_commit="+inherited), pgstore.Options{NonDurable: nonDurable})
				appendOne(t, s, "T|1", 0)
				three := annals.Commit{ID: "T|1", After: 1, Events: []annals.NewEvent{{Payload: text("2")}, {Payload: text("3")}, {Payload: text("4")}}}
				_, err := s.Journal().Append(t.Context(), three)
				mustPut(t, s, "T|1", 0, text("x"))
				snapshot := annals.Snapshot{ID: "T|1", SeqNr: 5, Payload: text("all")}
				_, withSnapshot := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: 4, Events: three.Events[:1], Snapshot: &snapshot})
				err = errors.Join(err, withSnapshot,
					s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|2", SeqNr: 1, Payload: text("x")}),
					s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{{Time: time.Now(), ID: "T|1", SeqNr: 1}}}),
					s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
						_, err := in.Journal().Append(ctx, annals.Commit{ID: "T|3", Events: three.Events[:1]})
						return err
					}))
				if err != nil {
					t.Error(err)
				}
				var writes, so int
				query(t, u, "SELECT count(*), count(*) FILTER (WHERE value = $1) FROM settings", []any{want}, &writes, &so)
				if writes != 10 || so != writes {
					t.Errorf("%d of %d writes with synchronous_commit=%s, want 10 of 10", so, writes, want)
				}
			})
		}
	}
}

func TestUnloggedTables(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	openAt(t, u, pgstore.Options{CreateTables: true})
	run(t, u, "ALTER TABLE event_journal SET UNLOGGED; ALTER TABLE akka_projection_timestamp_offset_store SET UNLOGGED")
	_, err := pgstore.Open(t.Context(), pool(t, u), pgstore.Options{})
	wantKind(t, err, annals.ErrInvalid)
	for _, name := range []string{"event_journal", "akka_projection_timestamp_offset_store"} {
		if want := fmt.Sprintf("table %q is unlogged", name); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v\ndoes not say %s", err, want)
		}
	}
	if sizes, err := openAt(t, u, pgstore.Options{NonDurable: true}).Sizes(t.Context()); err != nil || sizes[0].Fsyncs != 0 {
		t.Errorf("%+v, %v", sizes, err)
	}
	run(t, u, `ALTER TABLE event_journal SET LOGGED; ALTER TABLE akka_projection_timestamp_offset_store SET LOGGED; ALTER TABLE event_journal RENAME TO part;
		CREATE TABLE event_journal (LIKE part INCLUDING ALL) PARTITION BY LIST (persistence_id);
		CREATE TABLE parts PARTITION OF event_journal DEFAULT PARTITION BY HASH (persistence_id);
		ALTER TABLE parts ATTACH PARTITION part FOR VALUES WITH (MODULUS 1, REMAINDER 0)`)
	openAt(t, u, pgstore.Options{})
	run(t, u, "ALTER TABLE part SET UNLOGGED")
	_, err = pgstore.Open(t.Context(), pool(t, u), pgstore.Options{})
	wantKind(t, err, annals.ErrInvalid)
}

// A session that the operator made read-only stays read-only. Open returns an error that says so, and creates nothing.
func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	_, err := pgstore.Open(t.Context(), pool(t, with(t, u, "default_transaction_read_only=on")), pgstore.Options{CreateTables: true})
	wantKind(t, err, annals.ErrInvalid)
	if !strings.Contains(fmt.Sprint(err), "default_transaction_read_only") {
		t.Errorf("the error does not say why: %v", err)
	}
}

// The operator makes the database of an open store read-only, and later writable again. Reads go on; writes fail at once with an error that
// says why.
func TestBecomesReadOnly(t *testing.T) {
	t.Parallel()
	u := postgres.Database(t)
	s := openAt(t, u, pgstore.Options{CreateTables: true})
	appendOne(t, s, "T|1", 0)
	setReadOnly := func(value string) {
		operator := with(t, u, "default_transaction_read_only=off")
		run(t, operator, "ALTER DATABASE "+strings.TrimPrefix(parsed(t, u).Path, "/")+" SET default_transaction_read_only = "+value)
		run(t, operator, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
	setReadOnly("on")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := annals.Commit{ID: "T|1", After: 1, Events: []annals.NewEvent{{Payload: text("x")}}}
	_, _ = s.Journal().Append(ctx, c) // may still find a connection that was ended
	_, err := s.Journal().Append(ctx, c)
	wantKind(t, err, annals.ErrUnavailable)
	if !strings.Contains(fmt.Sprint(err), "default_transaction_read_only") {
		t.Errorf("the append does not say why it failed: %v", err)
	}
	if err = put(t, s, "T|1", 0, text("x")); !strings.Contains(fmt.Sprint(err), "default_transaction_read_only") {
		t.Errorf("the put does not say why it failed: %v", err)
	}
	last, err := s.Journal().LastSeqNr(ctx, "T|1")
	for err != nil && ctx.Err() == nil { // the pool of the reads has still to notice that its connections ended
		last, err = s.Journal().LastSeqNr(ctx, "T|1")
	}
	if last != 1 || err != nil {
		t.Errorf("last number %d, %v, want 1", last, err)
	}
	setReadOnly("off")
	for _, err = s.Journal().Append(ctx, c); annals.SafeToRetry(err) && ctx.Err() == nil; {
		_, err = s.Journal().Append(ctx, c)
	}
	if err != nil {
		t.Error(err)
	}
}

// A connection whose session became read-only, as after a switch of the servers behind one address, is not used again.
func TestReadOnlyConnectionIsLeft(t *testing.T) {
	t.Parallel()
	s := openAt(t, with(t, postgres.Schema(t), "pool_max_conns=2"), pgstore.Options{CreateTables: true}) // one for groups, one for the others
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, _ annals.Store) error {
		_, err := tx.Exec(ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t, s, "T|1", 0, text("x")); err == nil {
		t.Fatal("the session is not read-only: nothing is tested")
	}
	mustPut(t, s, "T|1", 0, text("x"))
}

// The hooks of the caller's pool, which may fetch a password, are called for all connections of the store, also for the one that listens.
func TestHooksOfThePool(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	openAt(t, u, pgstore.Options{CreateTables: true})
	config, err := pgxpool.ParseConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	user, schema := config.ConnConfig.User, config.ConnConfig.RuntimeParams["search_path"]
	config.ConnConfig.User = "nobody_of_this_name"
	delete(config.ConnConfig.RuntimeParams, "search_path")
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.User = user
		return nil
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT set_config('search_path', $1, FALSE)", schema)
		return err
	}
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	here, err := pgstore.Open(t.Context(), p, pgstore.Options{Tables: pgstore.Tables{TimestampOffset: "akka_projection_timestamp_offset_store"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close() })
	signals, err := here.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	<-signals // it listens
	appendOne(t, openAt(t, u, pgstore.Options{}), "T|1", 0)
	<-signals
	appendOne(t, here, "T|1", 1)
	mustPut(t, here, "T|1", 0, text("x"))
}

// When a password cannot be fetched or a hook fails, nothing is written, and the error is returned.
func TestFailingHook(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	config, err := pgxpool.ParseConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	config.AfterRelease = func(*pgx.Conn) bool { return false } // each call makes a new connection
	var mu sync.Mutex
	var failing error
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		mu.Lock()
		defer mu.Unlock()
		return failing
	}
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	mu.Lock()
	failing = errors.New("no token to be had")
	mu.Unlock()
	_, one := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}})
	_, two := s.Journal().Append(t.Context(), annals.Commit{ID: "T|2", Events: []annals.NewEvent{{Payload: text("x")}, {Payload: text("y")}}})
	for what, err := range map[string]error{"an event": one, "two events": two, "a state": put(t, s, "T|1", 0, text("x")),
		"a transaction": s.InTx(t.Context(), func(context.Context, pgx.Tx, annals.Store) error { return nil })} {
		if !errors.Is(err, annals.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "no token to be had") {
			t.Errorf("%s: %v, want ErrUnavailable with its cause", what, err)
		}
	}
}

// However many calls there are at once, a store opens no more connections than documented.
func TestConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pool, most int }{{1, 1 + 1 + 1}, {2, 2 + 2 + 1}, {4, 4 + 4 + 1}, {9, 9 + 9 + 1}} {
		t.Run(fmt.Sprint(c.pool), func(t *testing.T) {
			t.Parallel()
			u := postgres.Schema(t)
			name := parsed(t, u).Query().Get("search_path")
			s := openAt(t, with(t, u, fmt.Sprint("pool_max_conns=", c.pool), "application_name="+name), pgstore.Options{CreateTables: true})
			if _, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{}); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					id := annals.PersistenceID(fmt.Sprintf("T|%d", i))
					for n := range annals.SeqNr(5) {
						appendOne(t, s, id, n)
						mustPut(t, s, id, n, text("x"))
						all(t, s, id)
					}
				})
			}
			wg.Wait()
			if n := count(t, u, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'", name)); n > c.most {
				t.Errorf("%d connections for a pool of %d, want %d at most", n, c.pool, c.most)
			}
		})
	}
}

func parsed(t testing.TB, u string) *url.URL {
	t.Helper()
	p, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
