package pgstore_test

import (
	"errors"
	"iter"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// all are an entity's events.
func all(t *testing.T, s annals.Store, id annals.PersistenceID) []annals.Event {
	t.Helper()
	events, err := collected(s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// collected are the values of a sequence up to its error.
func collected[T any](seq iter.Seq2[T, error]) (values []T, err error) {
	for v, err := range seq {
		if err != nil {
			return values, err
		}
		values = append(values, v)
	}
	return values, nil
}

// A pool can be set to use no prepared statements, as some poolers need. It writes and reads the same as any other pool.
func TestModesOfTheDriver(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	usual := openAt(t, at, pgstore.Options{CreateTables: true})
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, inMode(t, at, mode), pgstore.Options{})
			id := annals.PersistenceID("Mode|" + mode)
			appendOne(t, s, id, 0)
			appendOne(t, s, id, 1)
			_, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: 2, Events: []annals.NewEvent{{
				Payload: annals.Payload{SerializerID: 31, Manifest: "m#1", Data: []byte("\x00\xff")}, Adapter: "a",
				Metadata: annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte{0}}, Tags: []string{`a "quoted" one`, `back\slash`, "{,}"},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			run(t, at, "UPDATE event_journal SET adapter_manifest = NULL WHERE seq_nr = 1 AND persistence_id = 'Mode|"+mode+"'")
			got, want := all(t, s, id), all(t, usual, id)
			if len(got) != 3 || !reflect.DeepEqual(got, want) || len(got[2].Tags) != 3 || string(got[2].Metadata.Data) != "\x00" {
				t.Errorf("read\n%+v, otherwise\n%+v", got, want)
			}
		})
	}
}

// inMode is the URL at with a query mode of the driver.
func inMode(t *testing.T, at, mode string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", mode)
	u.RawQuery = q.Encode()
	return u.String()
}

// PostgreSQL's times have a greater range than Go's. A value that is no time, no list of tags or no 32-bit number is ErrCorrupt with the
// entity's id, never another value, and is not tried again. This holds for every call that reads rows, in both formats.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	run(t, at, `ALTER TABLE event_journal ALTER event_ser_id TYPE BIGINT, ALTER meta_ser_id TYPE BIGINT;
		ALTER TABLE snapshot ALTER ser_id TYPE BIGINT; ALTER TABLE durable_state ALTER state_ser_id TYPE BIGINT`)
	nothing := func(annals.Snapshot) error { return nil }
	texts := openAt(t, inMode(t, at, "simple_protocol"), pgstore.Options{})
	for name, c := range map[string]struct{ table, set string }{
		"time":              {"event_journal", "db_timestamp = 'infinity'"},
		"null tag":          {"event_journal", "tags = ARRAY['a', NULL]"},
		"dimensions":        {"event_journal", "tags = ARRAY[['a'], ['b']]"},
		"large number":      {"event_journal", "event_ser_id = 1::bigint << 40"},
		"as if 31":          {"event_journal", "event_ser_id = 4294967327"},
		"metadata":          {"event_journal", "meta_ser_id = 4294967327, meta_ser_manifest = '', meta_payload = ''"},
		"snapshot":          {"snapshot", "ser_id = 4294967327"},
		"snapshot's time":   {"snapshot", "write_timestamp = 9223372036854775807"},
		"state":             {"durable_state", "state_ser_id = 4294967327"},
		"as if a tombstone": {"durable_state", "state_ser_id = 4294967296"},
		"state's tags":      {"durable_state", "tags = ARRAY[['a'], ['b']]"},
		"state's time":      {"durable_state", "db_timestamp = 'infinity'"},
	} {
		entityType := strings.ReplaceAll(name, " ", "-")
		id := annals.NewPersistenceID(entityType, "1")
		appendOne(t, s, id, 0)
		mustPut(t, s, id, 0, text("x"))
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 1, Payload: text("x")}); err != nil {
			t.Fatal(err)
		}
		if c.table != "snapshot" { // events after a snapshot only are recovered
			run(t, at, "UPDATE snapshot SET seq_nr = 0 WHERE persistence_id = '"+strings.ReplaceAll(string(id), "'", "''")+"'")
		}
		run(t, at, "UPDATE "+c.table+" SET "+c.set+" WHERE persistence_id = '"+strings.ReplaceAll(string(id), "'", "''")+"'")
		for format, s := range map[string]*pgstore.Store{"binary": s, "text": texts} {
			var errs []error
			_, err := ability.Recover(t.Context(), s, id, nothing, func(annals.Event) error { return nil })
			switch c.table {
			case "event_journal":
				_, replayed := collected(s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr))
				_, queried := collected(s.Query().Events(t.Context(), annals.Filter{Type: entityType}))
				errs = append(errs, err, replayed, queried)
			case "snapshot":
				_, _, latest := s.Snapshots().Latest(t.Context(), id, annals.SnapshotCriteria{})
				errs = append(errs, err, latest)
			default:
				_, _, got := s.States().Get(t.Context(), id)
				_, queried := collected(s.Query().States(t.Context(), annals.Filter{Type: entityType}))
				errs = append(errs, got, queried)
			}
			for i, err := range errs {
				if e := (*annals.Error)(nil); !errors.Is(err, annals.ErrCorrupt) || !errors.As(err, &e) || e.ID != id || e.Op == "" {
					t.Errorf("%s, %s, call %d: got %v, want ErrCorrupt of %q", name, format, i, err, id)
				}
			}
		}
	}
	appendOne(t, s, "T|old", 0)
	run(t, at, "UPDATE event_journal SET db_timestamp = '1900-02-03 04:05:06.000007Z', tags = '{}' WHERE persistence_id = 'T|old'")
	if e := all(t, s, "T|old"); len(e) != 1 || e[0].Time.Format("2006-01-02T15:04:05.000000Z07:00") != "1900-02-03T04:05:06.000007Z" || e[0].Tags != nil {
		t.Errorf("read %+v", e)
	}
}

// After a change of a table, writes by statements that were prepared before it succeed.
func TestAppendsAfterSchemaChanges(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	for after := range annals.SeqNr(20) {
		if after%4 == 3 {
			run(t, at, "ALTER TABLE event_journal ALTER db_timestamp TYPE TIMESTAMPTZ("+string(rune('3'+after%3))+")")
		}
		appendOne(t, s, "T|1", after)
	}
	if n := len(all(t, s, "T|1")); n != 20 {
		t.Errorf("%d events, want 20", n)
	}
}

// A caller's tracer sees the appends.
func TestTracerSeesAppends(t *testing.T) {
	t.Parallel()
	seen := &queries{}
	s := openTraced(t, postgres.Schema(t), seen, pgstore.Options{CreateTables: true})
	seen.take()
	appendOne(t, s, "T|1", 0)
	if len(seen.take()) == 0 {
		t.Error("the tracer saw nothing")
	}
}
