package pgstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// pluginRow is what the plugins' query by slices looks at.
type pluginRow struct {
	id    annals.PersistenceID
	seqNr int64
	at    time.Time
}

// pluginEvents pages through the events of a type as the plugins' currentEventsBySlices does: rows from the time of the last on,
// without those seen at that time, until a page brings nothing new. from is false for plugins before Akka 1.2.5, which ask for
// all rows of that time.
func pluginEvents(t *testing.T, url, entityType string, buffer int, from bool) map[annals.PersistenceID]int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	last := map[annals.PersistenceID]int64{}
	latest, seen := time.Unix(0, 0), map[annals.PersistenceID]int64{}
	for {
		newest := int64(0)
		for _, n := range seen {
			newest = max(newest, n)
		}
		if !from {
			newest = 0
		}
		rows, err := conn.Query(t.Context(), `SELECT persistence_id, seq_nr, db_timestamp FROM event_journal WHERE entity_type = $1 AND slice BETWEEN 0 AND 1023
			AND db_timestamp >= $2 AND (db_timestamp <> $2 OR seq_nr >= $3) AND deleted = false ORDER BY db_timestamp, seq_nr LIMIT $4`, entityType, latest, newest, buffer)
		if err != nil {
			t.Fatal(err)
		}
		fresh := 0
		var r pluginRow
		if _, err := pgx.ForEachRow(rows, []any{(*string)(&r.id), &r.seqNr, &r.at}, func() error {
			if r.at.Equal(latest) && seen[r.id] >= r.seqNr {
				if len(seen) >= buffer {
					return fmt.Errorf("too many events stored with the same timestamp, %v", r.at)
				}
				return nil
			}
			if !r.at.Equal(latest) {
				latest, seen = r.at, map[annals.PersistenceID]int64{}
			}
			seen[r.id] = r.seqNr
			fresh++
			if r.seqNr != last[r.id]+1 {
				return fmt.Errorf("%q: event %d comes after %d", r.id, r.seqNr, last[r.id])
			}
			last[r.id] = r.seqNr
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if fresh == 0 {
			return last
		}
	}
}

// Two stores write thousands of events in groups. The plugins' queries return all of them, with a buffer far smaller than a group.
func TestPluginQueriesAfterGroups(t *testing.T) {
	t.Parallel()
	const entities, rounds, buffer = 200, 6, 50
	url := postgres.Schema(t)
	stores := []*pgstore.Store{openAt(t, url, pgstore.Options{CreateTables: true, MaxEvents: 10}), openAt(t, url, pgstore.Options{MaxEvents: 10})}
	var wg sync.WaitGroup
	for i := range entities {
		wg.Go(func() {
			id := annals.PersistenceID(fmt.Sprintf("Tie|%d", i))
			for after, round := annals.SeqNr(0), 0; round < rounds; round++ {
				c := annals.Commit{ID: id, After: after}
				for range 1 + (i+round)%2*2 {
					c.Events = append(c.Events, annals.NewEvent{Payload: text("x")})
				}
				r, err := stores[i%2].Journal().Append(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				after = r.SeqNr
			}
		})
	}
	wg.Wait()
	stored := count(t, url, "SELECT count(*) FROM event_journal")
	for _, from := range []bool{false, true} {
		sum := 0
		for _, n := range pluginEvents(t, url, "Tie", buffer, from) {
			sum += int(n)
		}
		if sum != stored || stored != entities*rounds*2 {
			t.Errorf("the plugin sees %d events, %d are stored, want %d (from the number: %v)", sum, stored, entities*rounds*2, from)
		}
	}
	// What one statement stores has as many times as commits: ties are of statements that began in the same microsecond.
	if n := count(t, url, "SELECT max(n) FROM (SELECT count(DISTINCT persistence_id) AS n FROM event_journal GROUP BY db_timestamp) ties"); n > 8 {
		t.Errorf("%d commits share a time", n)
	}
	if n := count(t, url, "SELECT count(*) FROM event_journal WHERE db_timestamp > clock_timestamp()"); n != 0 {
		t.Errorf("%d events are ahead of the clock", n)
	}
}
