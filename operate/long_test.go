package operate_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/sqlitestore"
)

// longStore is a store with an entity of 100,000 events.
func longStore(t testing.TB) annals.Store {
	t.Helper()
	path := t.TempDir() + "/long.db"
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
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
	return s
}

// BenchmarkPageOfLongEntity renders the first 100 of 100,000 events, and the last 100.
func BenchmarkPageOfLongEntity(b *testing.B) {
	s := longStore(b)
	page, err := operate.Handler(s, config(s), operate.PageOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for name, path := range map[string]string{"first": "/entity?id=Long%7C1", "last": "/entity?id=Long%7C1&after=99900"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
				r.RemoteAddr = "127.0.0.1:1"
				w := httptest.NewRecorder()
				if page.ServeHTTP(w, r); w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// An entity of 100,000 events is shown in pages, in bounded memory: neither the first nor the last page reads it whole. No other test runs meanwhile,
// since they would allocate too.
func TestLongEntity(t *testing.T) {
	s := longStore(t)
	long := meter
	long.Type = "Long"
	c := config(s)
	c.Entities = append(c.Entities, operate.Sourced(long))
	pageOfLongEntity(t, s, c)
	c.Entities = c.Entities[:2] // the command reads all events for the newest state
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

// A page of 100 events of the long entity, and the newest events, read few events: they are counted.
func pageOfLongEntity(t *testing.T, s annals.Store, c operate.Config) {
	t.Helper()
	events := 0
	counted := &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		c.Each = func(value any) error {
			if _, ok := value.(*annals.Event); ok {
				events++
			}
			return nil
		}
		return run()
	}}
	v := visit(t, counted, c, operate.PageOptions{})
	for _, p := range []struct {
		path, has string
		most      int
	}{
		{"", "✓ Yes", 0},
		{"entity?id=Long%7C1", `id="n100"`, 101},
		{"entity?id=Long%7C1&after=50000", `id="n50100"`, 101},
		{"entity?id=Long%7C1&after=99900", `id="n100000"`, 101},
		{"entities?search=Long", "Long|1", 0},
		{"tail?after=0", "Long|1", 102},
	} {
		events = 0
		if w := v.get(p.path); w.Code != 200 || !strings.Contains(w.Body.String(), p.has) || events > p.most {
			t.Errorf("/%s: status %d, %d events are read, at most %d are wanted", p.path, w.Code, events, p.most)
		}
	}
	// All events have the same time here, which is the worst: each look back reads a thousand.
	events = 0
	if w := v.get("tail"); w.Code != 200 || events > 15_000 {
		t.Errorf("the newest: status %d, %d events are read", w.Code, events)
	}
}
