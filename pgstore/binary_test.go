package pgstore_test

import (
	"context"
	"net/url"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/testpg"
	"github.com/annals-go/annals/pgstore"
)

// all are an entity's events.
func all(t *testing.T, s annals.Store, id annals.PersistenceID) (events []annals.Event) {
	t.Helper()
	for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// A pool that avoids prepared statements, as poolers in between may ask for, writes and reads the same as any other.
func TestModesOfTheDriver(t *testing.T) {
	t.Parallel()
	at := testpg.Schema(t)
	usual := openAt(t, at, pgstore.Options{CreateTables: true})
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set("default_query_exec_mode", mode)
			u.RawQuery = q.Encode()
			s := openAt(t, u.String(), pgstore.Options{})
			id := annals.PersistenceID("Mode|" + mode)
			appendOne(t, s, id, 0)
			appendOne(t, s, id, 1)
			_, err = s.Journal().Append(t.Context(), annals.Commit{ID: id, After: 2, Events: []annals.NewEvent{{
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

// The plugin's times end where Go's do not; what is no time, no list of tags or no 32-bit number is an error, not another value.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	at := testpg.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	run(t, at, "ALTER TABLE event_journal ALTER event_ser_id TYPE BIGINT")
	for name, set := range map[string]string{
		"infinite": "db_timestamp = 'infinity'", "null tag": "tags = ARRAY['a', NULL]", "tags in two dimensions": "tags = ARRAY[['a'], ['b']]", "large number": "event_ser_id = 1::bigint << 40",
	} {
		id := annals.PersistenceID("T|" + name)
		appendOne(t, s, id, 0)
		run(t, at, "UPDATE event_journal SET "+set+" WHERE persistence_id = 'T|"+name+"'")
		for _, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
	appendOne(t, s, "T|old", 0)
	run(t, at, "UPDATE event_journal SET db_timestamp = '1900-02-03 04:05:06.000007Z', tags = '{}' WHERE persistence_id = 'T|old'")
	if e := all(t, s, "T|old"); len(e) != 1 || e[0].Time.Format("2006-01-02T15:04:05.000000Z07:00") != "1900-02-03T04:05:06.000007Z" || e[0].Tags != nil {
		t.Errorf("read %+v", e)
	}
}

// A table that changes under prepared statements is no failure of the writes that come after.
func TestAppendsBehindSchemaChanges(t *testing.T) {
	t.Parallel()
	at := testpg.Schema(t)
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
	config, err := pgxpool.ParseConfig(testpg.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	traced := make(chan string, 1000)
	config.ConnConfig.Tracer = tracer(traced)
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := pgstore.Open(t.Context(), p, pgstore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for len(traced) > 0 {
		<-traced
	}
	appendOne(t, s, "T|1", 0)
	if len(traced) == 0 {
		t.Error("the tracer saw nothing")
	}
}

type tracer chan string

func (c tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c <- data.SQL
	return ctx
}

func (c tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
