package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// queries is a tracer that keeps what it sees.
type queries struct {
	mu   sync.Mutex
	seen []pgx.TraceQueryStartData
}

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen = append(q.seen, data)
	return ctx
}

func (q *queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take is what was seen since the last time.
func (q *queries) take() []pgx.TraceQueryStartData {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := q.seen
	q.seen = nil
	return seen
}

// plan is a node of what EXPLAIN says.
type plan struct {
	Node  string  `json:"Node Type"`
	Rows  float64 `json:"Actual Rows"`
	Loops float64 `json:"Actual Loops"`
	Plans []plan
}

// largestSort is how many rows the largest sort of p takes in.
func (p *plan) largestSort() (most float64) {
	for i := range p.Plans {
		most = max(most, p.Plans[i].largestSort())
		if p.Node == "Sort" || p.Node == "Incremental Sort" {
			most = max(most, p.Plans[i].Rows*p.Plans[i].Loops)
		}
	}
	return most
}

// A query over a type does not sort a long history, for any of its pages.
func TestPlansOfATypeQuery(t *testing.T) {
	t.Parallel()
	const events = 200_000
	u := postgres.Database(t)
	seen := &queries{}
	s := openTraced(t, u, seen, pgstore.Options{CreateTables: true})
	conn, err := pgx.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, spread := range map[string]string{"all slices": "n * 7919 % 1024", "few slices": "n * 7919 % 3"} {
		if _, err := conn.Exec(t.Context(), "TRUNCATE event_journal"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
			SELECT `+spread+`, 'T', 'T|' || n % 5000, n, '2024-01-01Z'::timestamptz + n * interval '1 second', 20, '', 'x', '' FROM generate_series(1, $1::int) n`, events); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "VACUUM ANALYZE event_journal"); err != nil {
			t.Fatal(err)
		}
		for about, f := range map[string]annals.Filter{
			"all": {Type: "T"}, "a quarter": {Type: "T", Slices: annals.SliceRange{From: 0, To: 256}}, "without payloads": {Type: "T", KeysOnly: true},
		} {
			seen.take()
			n, last := 0, annals.Offset{}
			for e, err := range s.Query().Events(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; e.Offset().Compare(last) <= 0 {
					t.Fatalf("%s, %s: %v comes after %v", name, about, e.Offset(), last)
				}
				if last = e.Offset(); n == 3500 {
					break
				}
			}
			if n != 3500 {
				t.Fatalf("%s, %s: %d events", name, about, n)
			}
			if o, err := s.Query().Newest(t.Context(), f); err != nil || o.Compare(last) <= 0 {
				t.Fatalf("%s, %s: the newest is %v (%v)", name, about, o, err)
			}
			for i, q := range seen.take() {
				var explained []struct{ Plan plan }
				args := q.Args
				if _, formats := args[0].(pgx.QueryResultFormats); formats {
					args = args[1:]
				}
				if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+q.SQL, args...).Scan(&explained); err != nil {
					t.Fatal(err)
				}
				if rows := explained[0].Plan.largestSort(); rows > 12_000 {
					t.Errorf("%s, %s: statement %d sorts %.0f rows:\n%s", name, about, i+1, rows, q.SQL)
				}
			}
		}
	}
}

// A server keeps the plan of a statement that it made while the tables were empty. The statements of an entity read few rows with it, also once
// the entity has many.
func TestPlansOfEmptyTables(t *testing.T) {
	t.Parallel()
	const long = 100_000
	s := openAt(t, with(t, postgres.Database(t), "plan_cache_mode=force_generic_plan"), pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		e := annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte("1")}}
		use := func(id annals.PersistenceID, last annals.SeqNr) {
			t.Helper()
			for _, c := range []struct {
				about string
				call  func() error
			}{
				{"last", func() error { _, err := in.Journal().LastSeqNr(ctx, id); return err }},
				{"append one", func() error {
					_, err := in.Journal().Append(ctx, annals.Commit{ID: id, After: last, Events: []annals.NewEvent{e}})
					return err
				}},
				{"append two", func() error {
					_, err := in.Journal().Append(ctx, annals.Commit{ID: id, After: last + 1, Events: []annals.NewEvent{e, e}})
					return err
				}},
				{"snapshot", func() error {
					return in.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: last + 2, Payload: e.Payload})
				}},
				{"recover", func() error {
					_, err := ability.Recover(ctx, in, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
					return err
				}},
			} {
				before := fetched(t, tx)
				if err := c.call(); err != nil {
					t.Fatalf("%s: %v", c.about, err)
				}
				if n := fetched(t, tx) - before; n > 100 {
					t.Errorf("%s: reads %d rows of %d", c.about, n, last)
				}
			}
		}
		use("T|1", 0)
		if _, err := tx.Exec(ctx, `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
			SELECT 1, 'T', 'T|1', n, now(), 20, '', 'x', '' FROM generate_series(4, $1::int) n`, long); err != nil {
			return err
		}
		use("T|1", long)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The looks and saves of a projection read few rows with plans that the server made while the tables had some hundred rows, once they are large.
func TestPlansOfSmallTables(t *testing.T) {
	t.Parallel()
	s := openAt(t, with(t, postgres.Database(t), "plan_cache_mode=force_generic_plan"), pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		use := func(at time.Time) {
			t.Helper()
			p := annals.Progress{Projection: "p", Epoch: 1, Through: annals.Offset{Time: at}}
			for i := range 10 {
				p.Offsets = append(p.Offsets, annals.Offset{Time: at.Add(time.Second), SeqNr: 1, ID: annals.NewPersistenceID("T", fmt.Sprint(at.Unix(), i))})
			}
			look := func(f annals.Filter) error {
				f.After = annals.Offset{Time: at.Add(-10 * time.Second)}
				for _, err := range in.Query().Events(ctx, f) {
					if err != nil {
						return err
					}
				}
				return nil
			}
			for about, call := range map[string]func() error{
				"save":                     func() error { return in.Offsets().Save(ctx, p) },
				"look":                     func() error { return look(annals.Filter{Type: "T"}) },
				"look in some slices":      func() error { return look(annals.Filter{Type: "T", Slices: annals.SliceRange{From: 16, To: 64}}) },
				"look in slices far apart": func() error { return look(annals.Filter{Type: "T", Slices: annals.SpreadRanges(4)[1]}) },
			} {
				before := fetched(t, tx)
				if err := call(); err != nil {
					t.Fatalf("%s: %v", about, err)
				}
				if n := fetched(t, tx) - before; n > 200 {
					t.Errorf("%s: reads %d rows", about, n)
				}
			}
		}
		begin := time.Now()
		fill := func(from, to int) {
			t.Helper()
			for _, into := range []string{
				`event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
					SELECT n % 1024, 'T', 'T|' || n, 1, $1::timestamptz - interval '1 hour', 20, '', 'x', ''`,
				`akka_projection_timestamp_offset_store (projection_name, projection_key, slice, persistence_id, seq_nr, timestamp_offset, timestamp_consumed)
					SELECT 'p', '0-1023', n % 1024, 'U|' || n, 1, $1::timestamptz, $1`,
			} {
				if _, err := tx.Exec(ctx, `INSERT INTO `+into+` FROM generate_series($2::int, $3::int) n`, begin, from, to); err != nil {
					t.Fatal(err)
				}
			}
		}
		fill(1, 500)
		if _, err := tx.Exec(ctx, "ANALYZE event_journal, akka_projection_timestamp_offset_store"); err != nil {
			return err
		}
		use(begin)
		fill(501, 50_000)
		use(begin.Add(time.Minute))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fetched is how many rows the transaction has read so far.
func fetched(t *testing.T, tx pgx.Tx) (n int) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int FROM pg_stat_xact_user_tables").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
