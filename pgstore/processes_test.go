package pgstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// ownerURL is set in a test process that owns entities and carries out the orders of its standard input.
const ownerURL = "PGSTORE_TEST_OWNER"

// order is one thing to do: an append, or many at once when IDs are given.
type order struct {
	ID      annals.PersistenceID
	After   annals.SeqNr
	Events  int
	WriteID annals.WriteID

	IDs    []annals.PersistenceID
	Rounds int
}

// done is what came of an order.
type done struct {
	SeqNr    annals.SeqNr
	Repeated bool
	Conflict bool
	Error    string
	Won      []order // of many, those that were acknowledged
}

// retries is an Observer that counts them.
type retries struct {
	mu sync.Mutex
	n  int
}

func (r *retries) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (r *retries) End(_ context.Context, _ annals.Call, result annals.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += result.Retries
}

// own carries out orders until there are no more, one after the other.
func own(ctx context.Context, url string, in io.Reader, out io.Writer) error {
	p, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := pgstore.Open(ctx, p, pgstore.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	orders, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // the parent has no more
		}
		var d done
		if o.IDs != nil {
			d = appendMany(ctx, s, o)
		} else {
			d, _ = appendTexts(ctx, s, o)
		}
		if err := results.Encode(d); err != nil {
			return err
		}
	}
}

// appendTexts appends o.Events events, each its number.
func appendTexts(ctx context.Context, s annals.Store, o order) (done, error) {
	c := annals.Commit{ID: o.ID, After: o.After, WriteID: o.WriteID}
	for n := range o.Events {
		c.Events = append(c.Events, annals.NewEvent{Payload: text(fmt.Sprint(o.After + annals.SeqNr(n) + 1))})
	}
	r, err := s.Journal().Append(ctx, c)
	d := done{SeqNr: r.SeqNr, Repeated: r.Repeated, Conflict: errors.Is(err, annals.ErrConflict)}
	if err != nil {
		d.Error = err.Error()
	}
	return d, err
}

// appendMany runs one writer for each entity. It reads the last number and appends a commit, of one and of three events in turn.
func appendMany(ctx context.Context, s annals.Store, o order) (all done) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, id := range o.IDs {
		wg.Go(func() {
			for round := range o.Rounds {
				after, err := s.Journal().LastSeqNr(ctx, id)
				next := order{ID: id, After: after, Events: 1 + 2*((i+round)%2), WriteID: annals.NewWriteID()}
				var d done
				if err == nil {
					d, err = appendTexts(ctx, s, next)
				}
				mu.Lock()
				switch {
				case err == nil:
					all.Won = append(all.Won, next)
				case !d.Conflict:
					all.Error = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// owner is a process that owns entities.
type owner struct {
	*testing.T
	in  *json.Encoder
	out *json.Decoder
}

func newOwner(t *testing.T, url string) *owner {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), ownerURL+"="+url)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // no more orders
		if err := child.Wait(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	o := &owner{t, json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
	o.do(order{ID: "Ready|" + annals.PersistenceID(annals.NewWriteID().String()), Events: 1}) // it has opened its store
	return o
}

// start gives an order, wait returns what came of it.
func (o *owner) start(what order) {
	o.Helper()
	if err := o.in.Encode(what); err != nil {
		o.Fatal(err)
	}
}

func (o *owner) wait() (d done) {
	o.Helper()
	if err := o.out.Decode(&d); err != nil {
		o.Fatal(err)
	}
	return d
}

func (o *owner) do(what order) done {
	o.Helper()
	o.start(what)
	return o.wait()
}

// Two processes append to the same entities in opposite orders, commits of one and of three events. No commit is lost, stored twice or
// stored in part, and there is no deadlock, because groups insert in the order of the ids.
func TestTwoProcessesInOppositeOrders(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	ids := make([]annals.PersistenceID, 40)
	for i := range ids {
		ids[i] = annals.PersistenceID(fmt.Sprintf("Race|%02d", i))
	}
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	one, other := newOwner(t, url), newOwner(t, url)
	one.start(order{IDs: ids, Rounds: 25})
	other.start(order{IDs: reversed, Rounds: 25})
	won := map[annals.PersistenceID]map[annals.SeqNr]annals.WriteID{}
	both := 0
	for _, o := range []*owner{one, other} {
		d := o.wait()
		if d.Error != "" {
			t.Error(d.Error)
		}
		if len(d.Won) > 0 {
			both++
		}
		for _, w := range d.Won {
			if won[w.ID] == nil {
				won[w.ID] = map[annals.SeqNr]annals.WriteID{}
			}
			for n := w.After + 1; n <= w.After+annals.SeqNr(w.Events); n++ {
				if _, taken := won[w.ID][n]; taken {
					t.Errorf("%q: number %d was given twice", w.ID, n)
				}
				won[w.ID][n] = w.WriteID
			}
		}
	}
	if both != 2 {
		t.Error("only one process wrote: there was no race")
	}
	for _, id := range ids {
		n := annals.SeqNr(0)
		for _, e := range all(t, s, id) {
			if n++; e.SeqNr != n || e.WriteID != won[id][n] || string(e.Data) != fmt.Sprint(n) {
				t.Fatalf("%q: event %d is %+v, acknowledged to %v", id, n, e, won[id][n])
			}
		}
		if int(n) != len(won[id]) || n == 0 {
			t.Errorf("%q: %d events stored, %d acknowledged", id, n, len(won[id]))
		}
	}
	if n := deadlocks(t, url); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// deadlocks returns how many deadlocks the server has resolved in the database of url.
func deadlocks(t *testing.T, url string) int {
	t.Helper()
	return count(t, url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// The append of a process, of one event or of a group, waits between its read of the last number and its insert. Meanwhile another process
// writes to other entities, and the new owner appends, saves a snapshot and deletes everything. The late append is a conflict.
func TestProcessHeldUpWhileAnotherOwns(t *testing.T) {
	t.Parallel()
	for _, events := range []int{1, 3} {
		t.Run(fmt.Sprint(events, " events"), func(t *testing.T) {
			t.Parallel()
			url := postgres.Schema(t)
			s := openAt(t, url, pgstore.Options{CreateTables: true})
			appendOne(t, s, "Held|1", 0)
			held, neighbour := newOwner(t, url), newOwner(t, url)
			w := annals.NewWriteID()
			run(t, url, holding(w))
			release := lockSchema(t, url)
			held.start(order{ID: "Held|1", After: 1, Events: events, WriteID: w})
			awaitHeld(t, url)
			if d := neighbour.do(order{IDs: []annals.PersistenceID{"Free|1", "Free|2", "Free|3"}, Rounds: 10}); d.Error != "" || len(d.Won) != 30 {
				t.Errorf("neighbours: %d of 30 written, %s", len(d.Won), d.Error)
			}
			for after := annals.SeqNr(1); after < 5; after++ {
				if d := neighbour.do(order{ID: "Held|1", After: after, Events: 1}); d.Error != "" {
					t.Error(d.Error)
				}
			}
			if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "Held|1", SeqNr: 5, Payload: text("all")}); err != nil {
				t.Error(err)
			}
			if err := s.Journal().DeleteTo(t.Context(), "Held|1", annals.MaxSeqNr); err != nil {
				t.Error(err)
			}
			release()
			if d := held.wait(); !d.Conflict {
				t.Errorf("the one held up: %+v, want a conflict", d)
			}
			if events := all(t, s, "Held|1"); len(events) != 0 {
				t.Errorf("%d events came back", len(events))
			}
			if last, err := s.Journal().LastSeqNr(t.Context(), "Held|1"); last != 5 || err != nil {
				t.Errorf("last number %d (%v), want 5", last, err)
			}
		})
	}
}

// A process repeats an append after another process has appended more and deleted everything. The append is recognised. An append that was
// never stored stays a conflict.
func TestProcessRetriesAfterADelete(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	o := newOwner(t, url)
	w := annals.NewWriteID()
	first := order{ID: "T|1", Events: 3, WriteID: w}
	if d := o.do(first); d.SeqNr != 3 || d.Repeated || d.Error != "" {
		t.Fatalf("the first time: %+v", d)
	}
	appendOne(t, s, "T|1", 3)
	for range 2 {
		if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
		if d := o.do(first); d.SeqNr != 3 || !d.Repeated || d.Error != "" {
			t.Errorf("again, after a delete: %+v, want number 3, repeated", d)
		}
		first.WriteID = annals.NewWriteID()
		if d := o.do(first); !d.Conflict {
			t.Errorf("another write after a delete: %+v, want a conflict", d)
		}
		first.WriteID = w
	}
	appendOne(t, s, "T|1", 4)
	if events := all(t, s, "T|1"); len(events) != 1 || events[0].SeqNr != 5 {
		t.Errorf("events %+v, want number 5 alone", events)
	}
}

// A transaction of another program locks the keys of a commit in the opposite order. The server ends the store's transaction. The store
// tries again, and reports how often.
func TestDeadlockIsRetried(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	counted := &retries{}
	s := openAt(t, with(t, url, "deadlock_timeout=100ms"), pgstore.Options{CreateTables: true, Observer: counted})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	insert := func(seqNr int) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer)
			VALUES (0, 'T', 'T|1', $1, now(), 20, '', '', 'another')`, seqNr)
		return err
	}
	if _, err := tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1min'"); err != nil {
		t.Fatal(err)
	}
	if err := insert(3); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		d, err := appendTexts(t.Context(), s, order{ID: "T|1", Events: 3})
		if err == nil && d.SeqNr != 3 {
			err = fmt.Errorf("got %+v", d)
		}
		result <- err
	}()
	awaitWaiting(t, url)
	if err := insert(1); err != nil { // waits for the store's event 1, while the store waits for this transaction's event 3
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if n := len(all(t, s, "T|1")); n != 3 || counted.n == 0 {
		t.Errorf("%d events after %d retries, want 3 after some", n, counted.n)
	}
}

// awaitWaiting returns when a transaction waits for another.
func awaitWaiting(t *testing.T, url string) {
	t.Helper()
	for waiting := 0; waiting == 0; {
		waiting = count(t, url, `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'transactionid' AND NOT granted AND datname = current_database()`)
	}
}
