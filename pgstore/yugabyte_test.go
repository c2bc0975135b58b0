package pgstore_test

import (
	"net/url"
	"regexp"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// yugabyteTables are those of the plugin's script for YugabyteDB, without what PostgreSQL does not parse: HASH and ASC in a primary key
// and SPLIT AT. The indexes have two columns more than on PostgreSQL.
const yugabyteTables = pekkoTables + `
DROP INDEX event_journal_slice_idx; DROP INDEX durable_state_slice_idx;
CREATE INDEX event_journal_slice_idx ON event_journal (slice ASC, entity_type ASC, db_timestamp ASC, seq_nr ASC, persistence_id, deleted);
CREATE INDEX durable_state_slice_idx ON durable_state (slice ASC, entity_type ASC, db_timestamp ASC, revision ASC, persistence_id);
CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$ SELECT 'PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu' $$`

// YugabyteDB reads a list of slices one by one. On such a server no statement has a list of slices.
func TestStatementsForYugabyte(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	run(t, at, yugabyteTables)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	values := u.Query()
	values.Set("search_path", values.Get("search_path")+",pg_catalog") // the version is that of the schema
	u.RawQuery = values.Encode()
	seen := &queries{}
	s := openTraced(t, u.String(), seen, pgstore.Options{Tables: pgstore.PekkoTables()})

	appendOne(t, s, "T|1", 0)
	appendOne(t, s, "T|1", 1)
	mustPut(t, s, "T|1", 0, text("x"))
	mustPut(t, s, "T|1", 1, text("y"))
	if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil {
		t.Fatal(err)
	}
	slice := annals.PersistenceID("T|1").Slice()
	for name, f := range map[string]annals.Filter{
		"all": {}, "type": {Type: "T"}, "slices": {Slices: annals.SliceRange{From: slice, To: slice + 1}}, "both": {Type: "T", Slices: annals.SliceRange{From: 0, To: slice + 1}},
		"none": {Type: "T", Slices: annals.SliceRange{From: slice + 1, To: slice + 2}},
	} {
		events, states := 0, 0
		for _, err := range s.Query().Events(t.Context(), f) {
			if events++; err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range s.Query().States(t.Context(), f) {
			if states++; err != nil {
				t.Fatal(err)
			}
		}
		if want := map[bool]int{true: 0, false: 1}[name == "none"]; events != want || states != want {
			t.Errorf("%s: %d events and %d states, want %d", name, events, states, want)
		}
		if _, err := s.Query().Newest(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	list := regexp.MustCompile(`(?i)\bslice\s*(=\s*ANY|IN\s*\()`)
	ranges := 0
	for _, q := range seen.take() {
		if list.MatchString(q.SQL) {
			t.Errorf("a list of slices: %s", q.SQL)
		}
		if regexp.MustCompile(`slice BETWEEN`).MatchString(q.SQL) {
			ranges++
		}
	}
	if ranges == 0 {
		t.Error("no statement filters by a range of slices")
	}
}
