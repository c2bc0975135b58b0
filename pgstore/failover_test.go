package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// crashes is how often a server is stopped under load, and how many thousand writes are made by processes that are killed. make soak sets
// it higher.
var crashes = flag.Int("crashes", 1, "immediate stops of a PostgreSQL server under load, and thousands of writes of killed processes")

// load is writers that append events and put states, each to an entity of its own. They repeat a write whenever its error allows that.
type load struct {
	*testing.T
	s    *pgstore.Store
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	acked map[annals.PersistenceID][]annals.WriteID // of each entity, in the order of the numbers
	round int                                       // acknowledged writes since await was called
	more  chan struct{}                             // gets a token with each
}

const loadWriters = 16

func startLoad(t *testing.T, s *pgstore.Store) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{T: t, s: s, stop: stop, acked: map[annals.PersistenceID][]annals.WriteID{}, more: make(chan struct{}, 1)}
	t.Cleanup(l.end)
	for i := range loadWriters {
		id, write := annals.PersistenceID(fmt.Sprintf("Events|%d", i)), l.append
		if i%4 == 0 {
			id, write = annals.PersistenceID(fmt.Sprintf("State|%d", i)), l.put
		}
		l.wg.Go(func() {
			for after := annals.SeqNr(0); ctx.Err() == nil; after++ {
				w := annals.NewWriteID()
				if !l.write(ctx, id, w, func() (annals.Receipt, error) { return write(id, after, w) }) {
					return
				}
			}
		})
	}
	return l
}

func (l *load) append(id annals.PersistenceID, after annals.SeqNr, w annals.WriteID) (annals.Receipt, error) {
	return l.s.Journal().Append(l.Context(), annals.Commit{ID: id, After: after, WriteID: w, Events: []annals.NewEvent{{Payload: text(fmt.Sprint(after + 1))}}})
}

func (l *load) put(id annals.PersistenceID, after annals.SeqNr, w annals.WriteID) (annals.Receipt, error) {
	return l.s.States().Put(l.Context(), annals.StateWrite{ID: id, After: after, WriteID: w, Payload: text(fmt.Sprint(after + 1))})
}

// write makes one write until it is acknowledged. It returns false when the load has ended, or the write failed for good.
func (l *load) write(ctx context.Context, id annals.PersistenceID, w annals.WriteID, write func() (annals.Receipt, error)) bool {
	for try := 0; ; try++ {
		r, err := write()
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.acked[id] = append(l.acked[id], w); int(r.SeqNr) != len(l.acked[id]) {
				l.Errorf("%q: number %d was acknowledged as the write after %d", id, r.SeqNr, len(l.acked[id])-1)
			}
			l.round++
			select {
			case l.more <- struct{}{}:
			default:
			}
			return true
		}
		if !annals.SafeToRetry(err) {
			l.Error(err)
			return false
		}
		if backoff.Wait(ctx, try) != nil {
			return false
		}
	}
}

// await returns when n more writes were acknowledged, and each writer has had one.
func (l *load) await(n int) {
	l.Helper()
	l.mu.Lock()
	l.round = 0
	l.mu.Unlock()
	late := time.After(time.Minute)
	for done, writers := 0, 0; done < n || writers < loadWriters; {
		select {
		case <-l.more:
		case <-late:
			l.Fatalf("%d writes in a minute, want %d", done, n)
		}
		l.mu.Lock()
		done, writers = l.round, len(l.acked)
		l.mu.Unlock()
	}
}

// read repeats a read until its error does not allow that. A connection of the caller's pool may be one to the server that was stopped.
func (l *load) read(read func() error) (err error) {
	for try := range 20 {
		if err = read(); !annals.SafeToRetry(err) || backoff.Wait(l.Context(), try) != nil {
			break
		}
	}
	return err
}

func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// check ends the load and compares what is stored with what was acknowledged. A write that was under way at the end may be stored in
// addition.
func (l *load) check() {
	l.Helper()
	l.end()
	if len(l.acked) != loadWriters {
		l.Errorf("%d of %d entities were written", len(l.acked), loadWriters)
	}
	for id, acked := range l.acked {
		if strings.HasPrefix(string(id), "State|") {
			var state annals.State
			var ok bool
			err := l.read(func() (err error) { state, ok, err = l.s.States().Get(l.Context(), id); return err })
			if err != nil || !ok || int(state.Revision) < len(acked) || int(state.Revision) > len(acked)+1 {
				l.Errorf("%q: revision %d (%v, %v), acknowledged up to %d", id, state.Revision, ok, err, len(acked))
			}
			continue
		}
		var events []annals.Event
		if err := l.read(func() (err error) {
			events, err = collected(l.s.Journal().Replay(l.Context(), id, 1, annals.MaxSeqNr))
			return err
		}); err != nil {
			l.Error(err)
			continue
		}
		if len(events) < len(acked) || len(events) > len(acked)+1 {
			l.Errorf("%q: %d events, %d acknowledged", id, len(events), len(acked))
			continue
		}
		for i, w := range acked {
			if e := events[i]; int(e.SeqNr) != i+1 || e.WriteID != w || string(e.Data) != fmt.Sprint(i+1) {
				l.Errorf("%q: event %d is %+v, acknowledged to %v", id, i+1, e, w)
			}
		}
	}
}

func startServer(t *testing.T, settings ...string) *postgres.Server {
	t.Helper()
	server, err := postgres.Start(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// A server with synchronous_commit=off as its default is stopped immediately under load, several times. The store loses no acknowledged
// write, takes no write for a conflict, and goes on when the server is back. On a server with fsync=off no store opens, unless the program
// accepts that.
func TestImmediateStops(t *testing.T) {
	t.Parallel()
	server := startServer(t, "synchronous_commit=off", "wal_writer_delay=10s")
	s := openAt(t, with(t, server.URL, "pool_max_conns=8"), pgstore.Options{CreateTables: true})
	l := startLoad(t, s)
	for range *crashes {
		l.await(300)
		server.Crash()
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.await(300)
	l.check()

	server.Crash()
	if err := server.Restart(t.Context(), "fsync=off"); err != nil {
		t.Fatal(err)
	}
	_, err := pgstore.Open(t.Context(), pool(t, server.URL), pgstore.Options{})
	wantKind(t, err, annals.ErrInvalid)
	if !strings.Contains(fmt.Sprint(err), "fsync=off") {
		t.Errorf("the error does not say why: %v", err)
	}
	openAt(t, server.URL, pgstore.Options{NonDurable: true})
}

// The primary is stopped immediately under load and its synchronous standby is promoted. The store connects to it by itself. No
// acknowledged write is missing there, and no write is taken for a conflict.
func TestPromotion(t *testing.T) {
	t.Parallel()
	for range (*crashes + 1) / 2 {
		promote(t)
	}
}

func promote(t *testing.T) {
	primary := startServer(t)
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Stop)
	_, err = pgstore.Open(t.Context(), pool(t, standby.URL), pgstore.Options{})
	wantKind(t, err, annals.ErrUnavailable)
	if !strings.Contains(fmt.Sprint(err), "standby") {
		t.Errorf("a store on a standby: %v", err)
	}
	run(t, primary.URL, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	run(t, primary.URL, "SELECT pg_reload_conf()")
	for synchronous := 0; synchronous == 0; {
		synchronous = count(t, primary.URL, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
	}
	both := *parsed(t, primary.URL)
	both.Host += "," + parsed(t, standby.URL).Host
	s := openAt(t, with(t, both.String(), "target_session_attrs=read-write", "pool_max_conns=8"), pgstore.Options{CreateTables: true})
	l := startLoad(t, s)
	l.await(300)
	primary.Crash()
	run(t, standby.URL, "SELECT pg_promote(false)") // a statement that waits has a snapshot, for which the recovery that it waits for may have to wait, too
	l.await(300)
	l.check()
}

// Where the synchronous standby does not confirm, the server stores a write and does not answer, until a request to cancel ends its wait. Such a
// write is not acknowledged, also not when it is found. When it is sent again and no standby is missing, it is stored once.
func TestStandbyThatDoesNotConfirm(t *testing.T) {
	t.Parallel()
	server := startServer(t, "synchronous_standby_names=nobody")
	local := openAt(t, with(t, server.URL, "synchronous_commit=local"), pgstore.Options{CreateTables: true}) // does not wait for the standby
	for _, id := range []annals.PersistenceID{"T|3", "T|4"} {
		appendOne(t, local, id, 0)
	}
	if err := errors.Join(local.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|3", SeqNr: 1, Payload: text("x")}), local.Journal().DeleteTo(t.Context(), "T|4", 1)); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, server.URL, pgstore.Options{WriteTimeout: 100 * time.Millisecond})
	event, state := annals.NewWriteID(), annals.NewWriteID()
	writes := map[string]func(ctx context.Context) error{
		"append": func(ctx context.Context) error {
			_, err := s.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}, WriteID: event})
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := s.States().Put(ctx, annals.StateWrite{ID: "S|1", Payload: text("x"), WriteID: state})
			return err
		},
		"skip":   func(ctx context.Context) error { return s.Unwrap().(ability.Skipper).SkipTo(ctx, "T|2", 0, 5) },
		"delete": func(ctx context.Context) error { return s.Journal().DeleteTo(ctx, "T|3", 1) },
	}
	refused := func(name string, write func(ctx context.Context) error) {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if write(ctx) == nil {
				t.Errorf("%s: acknowledged", name)
			}
			cancel()
		}
	}
	var wg sync.WaitGroup
	for name, write := range writes {
		wg.Go(func() { refused(name, write) })
	}
	wg.Wait()
	writes["forget"] = func(ctx context.Context) error { // it waits for the other writers
		_, err := s.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: "T|4"})
		return err
	}
	writes["delete snapshots"] = func(ctx context.Context) error {
		return s.Snapshots().Delete(ctx, "T|3", annals.SnapshotCriteria{MaxSeqNr: 1})
	}
	writes["delete of none"] = func(ctx context.Context) error { return s.Journal().DeleteTo(ctx, "T|4", 1) }
	for _, c := range []struct{ name, rows string }{{"forget", "event_journal WHERE persistence_id = 'T|4'"}, {"delete snapshots", "snapshot"}, {"delete of none", "snapshot"}} {
		for left := 1; left > 0; left = count(t, server.URL, "SELECT count(*) FROM "+c.rows) { // where the machine is busy, a try can end before it removes rows
			refused(c.name, writes[c.name])
		}
	}
	server.Crash()
	if err := server.Restart(t.Context(), "synchronous_standby_names="); err != nil {
		t.Fatal(err)
	}
	for name, write := range writes {
		err := write(t.Context())
		for try := 0; annals.SafeToRetry(err) && backoff.Wait(t.Context(), try) == nil; try++ {
			err = write(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := count(t, server.URL, "SELECT (SELECT sum(seq_nr) FROM event_journal) + (SELECT sum(revision) FROM durable_state)"); n != 1+1+5+1+1 {
		t.Errorf("the numbers are %d together, want 9", n)
	}
}

// A write that was found is stored: while its row cannot be locked, its outcome is unknown, and not that nothing was written.
func TestFoundWriteThatCannotBeLocked(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: 100 * time.Millisecond})
	event, state := annals.NewWriteID(), annals.NewWriteID()
	writes := []func(ctx context.Context) (annals.Receipt, error){
		func(ctx context.Context) (annals.Receipt, error) {
			return s.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}, WriteID: event})
		},
		func(ctx context.Context) (annals.Receipt, error) {
			return s.States().Put(ctx, annals.StateWrite{ID: "S|1", Payload: text("x"), WriteID: state})
		},
	}
	for _, write := range writes {
		if _, err := write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT FROM event_journal, durable_state FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for _, write := range writes {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := write(ctx)
		cancel()
		wantKind(t, err, annals.ErrUnknown)
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for _, write := range writes {
		if r, err := write(t.Context()); !r.Repeated {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
