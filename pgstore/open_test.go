package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/pgstore"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	type states = map[string]annals.StateType[pgx.Tx]
	for name, c := range map[string]struct {
		sql     string // after the creation of the tables
		options pgstore.Options
		want    []string
	}{
		"no tables":            {"DROP TABLE snapshot, event_journal", pgstore.Options{}, []string{`no table "event_journal"`, `no table "snapshot"`}},
		"no column":            {"ALTER TABLE event_journal DROP COLUMN tags, DROP COLUMN writer", pgstore.Options{}, []string{`no column "tags"`, `no column "writer"`}},
		"another type":         {"ALTER TABLE event_journal ALTER seq_nr TYPE int", pgstore.Options{}, []string{`column "seq_nr" is integer, not bigint`}},
		"a local time":         {"ALTER TABLE snapshot ALTER db_timestamp TYPE timestamp", pgstore.Options{}, []string{`column "db_timestamp" is timestamp without time zone`}},
		"no key":               {"ALTER TABLE event_journal DROP CONSTRAINT event_journal_pkey", pgstore.Options{}, []string{`primary key (), not (persistence_id, seq_nr)`}},
		"another key":          {"ALTER TABLE durable_state DROP CONSTRAINT durable_state_pkey, ADD PRIMARY KEY (slice, persistence_id)", pgstore.Options{}, []string{`primary key (slice, persistence_id)`}},
		"no custom table":      {"", pgstore.Options{StateTypes: states{"X": {Table: "elsewhere"}}}, []string{`no table "elsewhere"`}},
		"no additional column": {"", pgstore.Options{StateTypes: states{"X": {Columns: []string{"title"}, Bind: nil0}}}, []string{`state type "X": table "durable_state" has no column "title"`}},
		"columns and no Bind":  {"", pgstore.Options{StateTypes: states{"X": {Columns: []string{"slice"}}}}, []string{"Columns and Bind go together", `column "slice" is the store's own`}},
		"bad names":            {"", pgstore.Options{Tables: pgstore.Tables{Journal: "snapshot", State: strings.Repeat("x", 64), Schema: "a\x00b"}}, []string{"named twice", "more than 63 bytes", "U+0000"}},
		"bad time-out":         {"", pgstore.Options{WriteTimeout: time.Hour}, []string{"WriteTimeout is 1h0m0s"}},
		"bad lateness":         {"", pgstore.Options{WriteTimeout: 2 * time.Second, Lateness: 3 * time.Second}, []string{"Lateness is 3s: it must be at least twice WriteTimeout, 4s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := postgres.Schema(t)
			openAt(t, u, pgstore.Options{CreateTables: true})
			if c.sql != "" {
				run(t, u, c.sql)
			}
			_, err := pgstore.Open(t.Context(), pool(t, u), c.options)
			wantKind(t, err, annals.ErrInvalid)
			for _, want := range c.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

func TestOpenWithoutServer(t *testing.T) {
	t.Parallel()
	p, err := pgxpool.New(t.Context(), "postgres://nobody:hidden@127.0.0.1:1/none?connect_timeout=2")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = pgstore.Open(t.Context(), p, pgstore.Options{})
	wantKind(t, err, annals.ErrUnavailable)
	if strings.Contains(fmt.Sprint(err), "hidden") {
		t.Errorf("the error tells the password: %v", err)
	}
	_, err = pgstore.Open(t.Context(), nil, pgstore.Options{})
	wantKind(t, err, annals.ErrInvalid)
}

// Names of tables may have any characters. They are quoted in statements, in names of indexes and notifications, and in errors.
func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	u := postgres.Database(t)
	o := pgstore.Options{CreateTables: true, JSONB: true, Tables: pgstore.Tables{Schema: `My "Schema"; --`, Journal: `Event's %s "Journal"`, Snapshot: `"event_journal"`,
		State: `"snapshot"`, TimestampOffset: "Offset", Epoch: "Ünïcode"}}
	s := openAt(t, u, o)
	openAt(t, u, o) // what exists is left as it is
	json := annals.Payload{SerializerID: 31, Manifest: "M", Data: []byte(`{"a": 1}`)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: json}, {Payload: json}}}); err != nil {
		t.Error(err)
	}
	mustPut(t, s, "T|1", 0, json)
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 2, Payload: json}); err != nil {
		t.Error(err)
	}
	if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Epoch: 1, Offsets: []annals.Offset{{Time: time.Now(), ID: "T|1", SeqNr: 1}}}); err != nil {
		t.Error(err)
	}
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
	wantIDs(t, s, "", "T|1")
	if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|2"}); !done || err != nil {
		t.Errorf("forgetting returns %v, %v", done, err)
	}
	wantKind(t, put(t, s, "T|2", 0, text("no JSON")), annals.ErrInvalid)
	wantKind(t, put(t, s, "T|2", 0, annals.Payload{SerializerID: 31, Data: []byte(`{"a": "\u0000"}`)}), annals.ErrInvalid) // JSON, but not to PostgreSQL
}

// Without the tables of projections a store opens. Its Capabilities and errors say what it lacks.
func TestWithoutProjectionTables(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	openAt(t, u, pgstore.Options{CreateTables: true})
	run(t, u, "DROP TABLE annals_projection_epoch")
	p := annals.Progress{Projection: "p", Offsets: []annals.Offset{{Time: time.Now(), ID: "T|1", SeqNr: 1}}}
	s := openAt(t, u, pgstore.Options{})
	if err := s.Offsets().Save(t.Context(), p); err != nil {
		t.Error(err)
	}
	p.Epoch = 1
	wantKind(t, s.Offsets().Save(t.Context(), p), annals.ErrUnsupported)
	run(t, u, "DROP TABLE akka_projection_timestamp_offset_store")
	s = openAt(t, u, pgstore.Options{})
	if s.Capabilities().Offsets {
		t.Error("a store without a table for offsets claims Offsets")
	}
	wantKind(t, s.Offsets().Save(t.Context(), p), annals.ErrUnsupported)
}

// Many replays run at once on a pool of one connection. The body of each writes to the same store and replays from it.
func TestReplayHoldsNoConnection(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t) + "&pool_max_conns=1"
	s := openAt(t, u, pgstore.Options{CreateTables: true})
	for i := range 4 {
		c := annals.Commit{ID: annals.PersistenceID(fmt.Sprintf("T|%d", i)), Events: slices.Repeat([]annals.NewEvent{{Payload: text("x")}}, 500)}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			id, n := annals.PersistenceID(fmt.Sprintf("T|%d", i)), 0
			for e, err := range s.Journal().Replay(t.Context(), id, 1, 500) {
				if n++; err != nil {
					t.Error(err)
				}
				if e.SeqNr%50 == 0 {
					last, err := s.Journal().LastSeqNr(t.Context(), id)
					if err != nil {
						t.Error(err)
					}
					appendOne(t, s, id, last)
					for _, err := range s.Journal().Replay(t.Context(), id, e.SeqNr, e.SeqNr+1) {
						if err != nil {
							t.Error(err)
						}
					}
				}
			}
			if n != 500 {
				t.Errorf("%d events, want 500", n)
			}
		})
	}
	wg.Wait()
}

// Large events come in small pages, and all of them come.
func TestReplayOfLargeEvents(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	data := make([]byte, 300_000)
	for after := annals.SeqNr(0); after < 300; after += 50 {
		c := annals.Commit{ID: "T|1", After: after, Events: slices.Repeat([]annals.NewEvent{{Payload: annals.Payload{SerializerID: 4, Data: data}}}, 50)}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	n := annals.SeqNr(0)
	for e, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
		if n++; err != nil || e.SeqNr != n || len(e.Data) != len(data) {
			t.Fatal(e.SeqNr, n, err)
		}
	}
	if n != 300 {
		t.Errorf("%d events, want 300", n)
	}
}

// A watch of one store is signalled after writes of another store: of events, of states, and of transactions when they commit.
func TestWatchAcrossStores(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	here, there := openAt(t, u, pgstore.Options{CreateTables: true}), openAt(t, u, pgstore.Options{})
	signals, err := here.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	<-signals // it listens
	for _, write := range []func() error{
		func() error { appendOne(t, there, "T|1", 0); return nil },
		func() error { return put(t, there, "T|2", 0, text("x")) },
	} {
		if err := write(); err != nil {
			t.Error(err)
		}
		<-signals
	}
	if err := here.Close(); err != nil {
		t.Error(err)
	}
	for range signals { // closed by Close
	}
}

// A watch of some slices is signalled after writes to them by another store, and not after writes to distant ones.
func TestWatchSlicesAcrossStores(t *testing.T) {
	t.Parallel()
	u := postgres.Database(t) // stores of one database hear each other
	here, there := openAt(t, u, pgstore.Options{CreateTables: true}), openAt(t, u, pgstore.Options{})
	const first, last = annals.PersistenceID("T|1"), annals.PersistenceID("T|distant")
	if distance := first.Slice() - last.Slice(); distance*distance < 32*32 {
		t.Fatalf("the slices are %d apart", distance)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watches []<-chan annals.SliceRange
	for _, id := range []annals.PersistenceID{first, last} {
		signals, err := here.Unwrap().(ability.Watcher).Watch(ctx, annals.Filter{Slices: annals.SliceRange{From: id.Slice(), To: id.Slice() + 1}})
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, signals)
	}
	<-watches[0] // it listens
	<-watches[1]
	appendOne(t, there, last, 0)
	<-watches[1]
	if err := ability.Atomically(t.Context(), here, func(ctx context.Context, in annals.Store) error { return put(t, in, last, 0, text("x")) }); err != nil {
		t.Fatal(err)
	}
	<-watches[1]
	cancel()
	for range watches[0] {
		t.Error("a write to other slices was signalled")
	}
}

// What another store, this store, and another release send.
func TestNotifications(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	here, there := openAt(t, u, pgstore.Options{CreateTables: true}), openAt(t, u, pgstore.Options{})
	written := watchers.SignalOf("T|1", "T|6")
	payload := pgstore.Notification(here, written)
	if heard := pgstore.Heard(there, payload); heard != written {
		t.Errorf("heard %x of %q, want %x", heard, payload, written)
	}
	if heard := pgstore.Heard(here, payload); heard != 0 {
		t.Errorf("heard %x of the own %q, want nothing", heard, payload)
	}
	for _, other := range []string{"", "x", "-1 y", "1ffffffffffffffff y"} {
		if heard := pgstore.Heard(here, other); heard != watchers.Everywhere {
			t.Errorf("heard %x of %q, want all", heard, other)
		}
	}
}

// A runner writes a state every few seconds to show that it is alive. This wakes no follower.
func TestStatesOfRunnersAreNotSignalled(t *testing.T) {
	t.Parallel()
	// Stores of one database hear each other.
	s := openAt(t, postgres.Database(t), pgstore.Options{CreateTables: true})
	signals, err := s.Unwrap().(ability.Watcher).Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	<-signals // it listens
	if err := put(t, s, "annals.projection|p", 0, text("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-signals:
		t.Error("the state of a runner was signalled")
	default:
	}
	if err := put(t, s, "T|1", 0, text("x")); err != nil {
		t.Fatal(err)
	}
	<-signals
}

// A server's message may quote a value: it is not repeated.
func TestErrorsTellNoPayload(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	s := openAt(t, u, pgstore.Options{CreateTables: true})
	run(t, u, `CREATE UNIQUE INDEX ON event_journal (event_payload);
		CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no %', convert_from(NEW.snapshot, 'UTF8'); END $$;
		CREATE TRIGGER loud BEFORE INSERT ON snapshot FOR EACH ROW EXECUTE FUNCTION loud()`)
	write := func(id annals.PersistenceID) error {
		_, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: text(secret)}}})
		return err
	}
	if err := write("T|1"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{write("T|2"), s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1, Payload: text(secret)})} {
		if err == nil || errors.Is(err, annals.ErrUnknown) {
			t.Errorf("got %v, want a refusal", err)
		}
		wantNoSecret(t, err)
	}
}
