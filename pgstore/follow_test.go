package pgstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
)

// An open transaction holds Through back. Its event is delivered when it commits, also to a worker that started anew.
func TestFollowBesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	written, ended := make(chan annals.Receipt), make(chan error, 1)
	opened, end := context.WithCancel(t.Context())
	defer end()
	const slowID, fastID = followtest.Type + "|slow", followtest.Type + "|fast"
	go func() {
		ended <- s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
			r, err := in.Journal().Append(ctx, annals.Commit{ID: slowID, Events: []annals.NewEvent{{Payload: text("1")}}})
			if err != nil {
				return err
			}
			written <- r
			<-opened.Done()
			return nil
		})
	}()
	r := <-written
	slow := annals.Offset{Time: r.Time, ID: slowID, SeqNr: r.SeqNr}
	w := followtest.NewWorker(s)
	w.Begin(t)
	const fast = 30
	for i := range annals.SeqNr(fast) {
		appendOne(t, s, fastID, i)
		if i == fast/2 {
			w.Begin(t)
		}
		for w.Seen[fastID] <= i {
			if b := w.Next(t); b.Through.Compare(slow) >= 0 {
				t.Fatalf("Through is %v, and %v is not committed", b.Through, slow)
			}
		}
	}
	w.Begin(t)
	if b := w.Next(t); len(b.Items) > 0 || !b.CaughtUp || b.Through.Compare(slow) >= 0 {
		t.Fatalf("got %+v, want no event, caught up, Through before %v", b, slow)
	}
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for through := (annals.Offset{}); w.Seen[slowID] == 0 || through.Compare(slow) < 0; { // other tests may have open transactions, too
		through = w.Next(t).Through
	}
}

// clocked is a database whose clock is the server's and a time, which ahead changes.
func clocked(t *testing.T) (h watermarks, ahead func(by string)) {
	h = watermarks{T: t, url: postgres.Database(t)}
	conn := h.session()
	h.exec(conn, `CREATE SCHEMA clock; CREATE TABLE clock.ahead AS SELECT interval '0' AS by;
		CREATE FUNCTION clock.transaction_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.transaction_timestamp() + by FROM clock.ahead';
		CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM clock.ahead'`)
	h.s = openAt(t, with(t, h.url, "search_path=clock,pg_catalog,public"), pgstore.Options{CreateTables: true})
	return h, func(by string) { h.exec(conn, "UPDATE clock.ahead SET by = '"+by+"'") }
}

// A clock of the server that jumps an hour forward and back does not make a follower skip what is stored when it is right again.
func TestFollowWhileTheClockJumps(t *testing.T) {
	t.Parallel()
	h, ahead := clocked(t)
	w := followtest.NewWorker(h.s)
	w.Begin(t)
	n := 0
	for _, jump := range []string{"0", "1 hour", "0"} {
		ahead(jump)
		for range 100 {
			n++
			appendOne(t, h.s, annals.NewPersistenceID(followtest.Type, strconv.Itoa(n)), 0)
		}
		for until, through := h.clock(), (time.Time{}); len(w.Seen) < n || through.Before(until); {
			if through = w.Next(t).Through.Time; through.After(h.clock()) {
				t.Fatalf("the clock is %s ahead: everything is handed over through %v", jump, through)
			}
		}
	}
}

// A clock that was an hour ahead for longer than it is not believed is set back. What is stored afterwards is handled late, and a warning says why.
func TestFollowAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	h, ahead := clocked(t)
	pgstore.BelieveAfter(h.s, time.Second)
	f := newFollowing(t, h.s, false)
	f.run()
	appendOne(t, h.s, "T|1", 0)
	f.wants("T|1", 1)
	ahead("1 hour")
	n := annals.SeqNr(0)
	f.await("the clock is believed", func(s projection.Status) bool {
		appendOne(t, h.s, "T|2", n)
		n++
		return s.Ranges[0].Through.Time.After(time.Now().Add(30 * time.Minute))
	})
	ahead("0")
	f.await("the warning", func(s projection.Status) bool { return strings.Contains(s.Ranges[0].Warning, "went back by") })
	appendOne(t, h.s, "T|1", 1)
	appendOne(t, h.s, "T|3", 0)
	appendOne(t, h.s, "T|3", 1)
	f.wants("T|3", 2)
	f.wants("T|1", 2)
	f.wants("T|2", n)
	f.await("they were late", func(s projection.Status) bool { return s.Late == 3 && s.Parked == 0 })
}

// A writer of another program has a clock that is an hour ahead, and then right. All its events are handled at once, and so are those of others.
func TestFollowAWriterWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	h := newWatermarks(t, pgstore.Options{})
	f := newFollowing(t, h.s, false)
	f.run()
	conn := h.session()
	write := func(id annals.PersistenceID, after annals.SeqNr, ahead time.Duration) {
		if err := writeForeign(t.Context(), conn, -ahead, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: text("x")}}}); err != nil {
			t.Fatal(err)
		}
	}
	write("T|1", 0, time.Hour)
	f.wants("T|1", 1)
	appendOne(t, h.s, "T|2", 0)
	write("T|1", 1, 0)
	appendOne(t, h.s, "T|1", 2)
	appendOne(t, h.s, "T|2", 1)
	f.wants("T|1", 3)
	f.wants("T|2", 2)
	f.await("none was late", func(s projection.Status) bool { return s.Late == 0 && s.Lag == 0 })
}

// A state that a transaction stores which is older than Lateness is handled late, and so is the next one of its entity in its turn.
func TestFollowStatesOfAnOldTransaction(t *testing.T) {
	t.Parallel()
	const lateness = time.Second
	h := newWatermarks(t, pgstore.Options{WriteTimeout: lateness / 2, Lateness: lateness})
	f := newFollowing(t, h.s, true)
	f.run()
	conn := h.session()
	began := h.begin(conn)
	n := annals.SeqNr(0)
	f.await("the position has passed the begin of a transaction", func(s projection.Status) bool {
		mustPut(t, h.s, "T|1", n, text("x"))
		n++
		return len(s.Ranges) > 0 && s.Ranges[0].Through.Time.After(began)
	})
	h.exec(conn, fmt.Sprintf(`INSERT INTO durable_state (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload)
		VALUES (%d, 'T', 'T|2', 1, CURRENT_TIMESTAMP, 20, '', 'x')`, annals.PersistenceID("T|2").Slice()))
	h.exec(conn, "COMMIT")
	f.wants("T|2", 1)
	mustPut(t, h.s, "T|2", 1, text("y"))
	f.wants("T|2", 2)
	f.await("one was late", func(s projection.Status) bool { return s.Late == 1 && s.Parked == 0 && s.Lag == 0 })
}
