package pgstore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// A history comes in bursts, with hours and months between them, and many rows of one time. The time bound of a page follows from the page
// before; where it is wrong, no row is missed.
func TestQueryOverBursts(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	s := openAt(t, u, pgstore.Options{CreateTables: true})
	run(t, u, `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
		SELECT n % 1024, CASE WHEN n % 7 = 0 THEN 'B' ELSE 'A' END, 'A|' || n % 50, n, '2024-01-01Z'::timestamptz + at, 20, '', 'x', ''
		FROM (SELECT n, CASE WHEN n <= 2500 THEN n * interval '1 millisecond' WHEN n <= 4000 THEN interval '3 hours'
			WHEN n <= 7000 THEN interval '90 days' + (n / 10) * interval '1 microsecond' ELSE interval '1 year' + n * interval '1 hour' END AS at
			FROM generate_series(1, 9000) n) b`)
	for name, c := range map[string]struct {
		filter annals.Filter
		sql    string
	}{
		"all":           {annals.Filter{}, "TRUE"},
		"a type":        {annals.Filter{Type: "A"}, "entity_type = 'A'"},
		"a rare type":   {annals.Filter{Type: "B"}, "entity_type = 'B'"},
		"slices":        {annals.Filter{Slices: annals.SliceRange{From: 100, To: 612}}, "slice BETWEEN 100 AND 611"},
		"type, slices":  {annals.Filter{Type: "A", Slices: annals.SliceRange{From: 512, To: 1024}}, "entity_type = 'A' AND slice >= 512"},
		"with a limit":  {annals.Filter{Limit: 2000}, "seq_nr <= 2000"},
		"a short limit": {annals.Filter{Limit: 7, KeysOnly: true}, "seq_nr <= 7"},
	} {
		t.Run(name, func(t *testing.T) {
			want := count(t, u, "SELECT count(*) FROM event_journal WHERE "+c.sql)
			n, last := 0, annals.Offset{}
			for e, err := range s.Query().Events(t.Context(), c.filter) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Offset().Compare(last) <= 0 {
					t.Fatalf("%v comes after %v", e.Offset(), last)
				}
				n, last = n+1, e.Offset()
			}
			if n != want {
				t.Errorf("%d events, want %d", n, want)
			}
		})
	}
}

// Ids of the same time and number are in Go's order, whatever the collation of the database. Otherwise a page that ends between such ids
// would be continued at another place.
func TestQueryOrderIsGos(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	s := openAt(t, u, pgstore.Options{CreateTables: true})
	run(t, u, `ALTER TABLE event_journal ALTER persistence_id TYPE VARCHAR(255) COLLATE "en-x-icu"`)
	run(t, u, `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
		SELECT 0, 'T', 'T|' || chr(33 + n % 90) || n, 1, '2024-01-01Z', 20, '', 'x', '' FROM generate_series(1, 2500) n WHERE n % 90 <> 59`)
	n, last := 0, annals.Offset{}
	for e, err := range s.Query().Events(t.Context(), annals.Filter{Type: "T"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Offset().Compare(last) <= 0 {
			t.Fatalf("%v comes after %v", e.Offset(), last)
		}
		n, last = n+1, e.Offset()
	}
	ids := 0
	for _, err := range s.Query().IDs(t.Context(), "", "") {
		if ids++; err != nil {
			t.Fatal(err)
		}
	}
	if want := count(t, u, "SELECT count(*) FROM event_journal"); n != want || ids != want {
		t.Errorf("%d events and %d ids, want %d", n, ids, want)
	}
}
