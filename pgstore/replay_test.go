package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// A replay makes few requests: the first page has 200 events, and each further one as many as fit into 8 MiB by the size of those before.
// The store keeps the memory of a long page.
func TestReplayRequests(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	r := &recorder{}
	s := openAt(t, u, pgstore.Options{CreateTables: true, Observer: r})
	for id, c := range map[annals.PersistenceID]struct{ events, bytes, requests int }{
		"T|one page":     {events: 199, bytes: 200, requests: 1},
		"T|two pages":    {events: 20_000, bytes: 200, requests: 2},
		"T|large events": {events: 300, bytes: 100_000, requests: 3}, // 200, 83, 17
	} {
		t.Run(string(id), func(t *testing.T) {
			storeEvents(t, u, id, c.events, fmt.Sprintf("repeat('x', %d)", c.bytes))
			n := 0
			for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; e.SeqNr != annals.SeqNr(n) || len(e.Data) != c.bytes {
					t.Fatalf("event %d has number %d and %d bytes", n, e.SeqNr, len(e.Data))
				}
			}
			if result := r.ended[len(r.ended)-1]; n != c.events || result.Requests != c.requests {
				t.Errorf("%d events by %d requests, want %d by %d", n, result.Requests, c.events, c.requests)
			}
		})
	}
}

// storeEvents stores events of an entity of the type T. payload is an expression for that of event n. Each event has a writer of its own.
func storeEvents(t *testing.T, url string, id annals.PersistenceID, events int, payload string) {
	t.Helper()
	run(t, url, fmt.Sprintf(`INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer, adapter_manifest)
		SELECT %d, 'T', '%s', n, now(), 4, '', convert_to(%s, 'UTF8'), gen_random_uuid(), '' FROM generate_series(1, %d) n`, id.Slice(), id, payload, events))
}
