package operate_test

import (
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/sqlitestore"
)

// An entity of 100,000 events is shown in pages, in bounded memory: neither the first nor the last page reads it whole. No other test runs meanwhile,
// since they would allocate too.
func TestLongEntity(t *testing.T) {
	path := t.TempDir() + "/long.db"
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n":1,"text":"` + strings.Repeat("x", 100) + `"}`)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Long|1", Events: []annals.NewEvent{{Payload: p}}}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// The other events are copies of the first one: appending them would take most of the time of the test.
	const columns = "slice, entity_type, persistence_id, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer"
	if _, err := db.ExecContext(t.Context(), "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO event_journal (seq_nr, "+columns+
		") SELECT i, "+columns+" FROM event_journal, n WHERE seq_nr = 1"); err != nil {
		t.Fatal(err)
	}
	c := config(s)
	for _, after := range []int{0, 50_000, 99_900} {
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		o := run(t, c, "show", "Long|1", "--after", fmt.Sprint(after))
		runtime.ReadMemStats(&now)
		if o.status != 0 || !strings.Contains(o.text, fmt.Sprintf("\n%d  ", after+100)) || strings.Contains(o.text, fmt.Sprintf("\n%d  ", after+101)) {
			t.Errorf("after %d: %+v", after, o)
		}
		// The whole entity is more than 12 MB.
		if n := now.TotalAlloc - before.TotalAlloc; n > 4<<20 {
			t.Errorf("after %d: it allocates %d bytes", after, n)
		}
	}
}
