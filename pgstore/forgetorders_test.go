package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// A call about an entity returns its answer.
type call struct {
	name string
	run  func(ctx context.Context, s annals.Store, id annals.PersistenceID) string
}

var (
	append2     = appending(2, 1)
	appendThree = appending(2, 3)
	append0     = appending(0, 1)
	append3     = appending(3, 1)

	appendInGroup = call{"append in a group", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		one := []annals.NewEvent{{Payload: text("e")}}
		r, err := pgstore.AppendGroup(ctx, s.(*pgstore.Store), annals.Commit{ID: id, After: 2, Events: one, WriteID: annals.NewWriteID()},
			annals.Commit{ID: id + " beside", Events: one, WriteID: annals.NewWriteID()})
		return fmt.Sprint(r.SeqNr, kindOf(err))
	}}
	appendWithSnapshot = call{"append with a snapshot", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: 2, Events: []annals.NewEvent{{Payload: text("e")}},
			Snapshot: &annals.Snapshot{ID: id, SeqNr: 3, Payload: text("all")}})
		return fmt.Sprint(r.SeqNr, kindOf(err))
	}}
	putState = call{"put", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		r, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: 2, Payload: text("s"), Event: &annals.NewEvent{Payload: text("e")}})
		return fmt.Sprint(r.SeqNr, kindOf(err))
	}}
	skipTo = call{"skip", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		return kindOf(able[ability.Skipper](s).SkipTo(ctx, id, 2, 5))
	}}
	deleteAll = call{"delete", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		return kindOf(s.Journal().DeleteTo(ctx, id, annals.MaxSeqNr))
	}}
	forget = call{"forget", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		for {
			done, err := able[ability.Forgetter](s).Forget(ctx, ability.Forgetting{ID: id})
			if !errors.Is(err, annals.ErrUnavailable) || ctx.Err() != nil { // on a slow machine it is held for longer than it waits
				return fmt.Sprint(done, kindOf(err))
			}
		}
	}}
	deleteAndForget = call{"delete and forget", func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		return deleteAll.run(ctx, s, id) + forget.run(ctx, s, id)
	}}
)

func appending(after annals.SeqNr, events int) call {
	return call{fmt.Sprintf("append %d after %d", events, after), func(ctx context.Context, s annals.Store, id annals.PersistenceID) string {
		r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: slices.Repeat([]annals.NewEvent{{Payload: text("e")}}, events)})
		return fmt.Sprint(r.SeqNr, kindOf(err))
	}}
}

func kindOf(err error) string {
	for _, kind := range []error{annals.ErrConflict, annals.ErrTruncated} {
		if errors.Is(err, kind) {
			return " " + kind.Error()
		}
	}
	return fmt.Sprintf(" %v", err)
}

// How the first call of a case is held while the others run.
const (
	inStatement = "in its statement" // at the first row that it writes: the statement has read the table
	atCommit    = "before COMMIT"    // it is a transaction
	atRollback  = "before ROLLBACK"
)

// orderCase is calls for one entity, whose events and state are deleted or, with live, not. The first call is held while the others run,
// one after the other.
type orderCase struct {
	live  bool
	calls []call
	held  []string
}

func (c orderCase) String() string {
	names := []string{"deleted"}
	if c.live {
		names[0] = "live"
	}
	for _, c := range c.calls {
		names = append(names, c.name)
	}
	return strings.Join(names, " | ")
}

func orderCases() (cases []orderCase) {
	all := []string{inStatement, atCommit, atRollback}
	for _, c := range []call{append2, appendThree, appendWithSnapshot, append0, putState, skipTo, deleteAll, forget} {
		cases = append(cases, orderCase{calls: []call{c, forget}, held: all}, orderCase{calls: []call{forget, c}, held: all})
	}
	for _, c := range []call{append2, appendThree, skipTo} {
		cases = append(cases, orderCase{live: true, calls: []call{c, deleteAll, forget}, held: all},
			orderCase{live: true, calls: []call{deleteAll, c, forget}, held: all},
			orderCase{live: true, calls: []call{deleteAndForget, c}, held: all[1:]})
	}
	return append(cases, orderCase{calls: []call{forget, appendInGroup}, held: all}, orderCase{calls: []call{forget, append2, append3}, held: all}, orderCase{calls: []call{append2, forget, append3}, held: all},
		orderCase{calls: []call{forget, append0, forget}, held: all})
}

// interleaving runs cases on one table, through one store whose calls are held and one whose calls are not.
type interleaving struct {
	t          *testing.T
	url        string
	held, free *pgstore.Store
	watch      *pgx.Conn
	lock       *pgx.Conn
	looks      atomic.Int64 // of the free store at the running transactions
	entities   int
	outcomes   map[string][]string // of serial
}

func newInterleaving(t *testing.T, plugin bool) *interleaving {
	t.Helper()
	o := &interleaving{t: t, url: postgres.Schema(t), outcomes: map[string][]string{}}
	o.watch, o.lock = session(t, o.url), session(t, o.url)
	openAt(t, o.url, pgstore.Options{CreateTables: true})
	run(t, o.url, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
			DECLARE id TEXT := CASE TG_OP WHEN 'DELETE' THEN OLD.persistence_id ELSE NEW.persistence_id END;
			BEGIN
				IF current_setting('application_name') = 'held' THEN PERFORM pg_advisory_xact_lock_shared(hashtextextended(id, 1)); END IF;
				RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
			END $$;
		CREATE TRIGGER hold BEFORE INSERT OR UPDATE OR DELETE ON event_journal FOR EACH ROW EXECUTE FUNCTION hold()`)
	options := pgstore.Options{WriteTimeout: time.Minute, PluginDeletes: plugin}
	o.held = openAt(t, with(t, o.url, "application_name=held"), options)
	o.free = openTraced(t, with(t, o.url, "application_name="+o.name()), o, options)
	return o
}

// name is that of the sessions of the free store.
func (o *interleaving) name() string { return strings.ReplaceAll(o.t.Name(), "/", "_") }

// TraceQueryStart implements pgx.QueryTracer.
func (o *interleaving) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "pg_locks") {
		o.looks.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (o *interleaving) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// entity makes an entity of two events and two revisions, which are deleted or not.
func (o *interleaving) entity(live bool) annals.PersistenceID {
	o.t.Helper()
	o.entities++
	id := annals.PersistenceID(fmt.Sprintf("T|%s %d", o.name(), o.entities))
	event := func() *annals.NewEvent { return &annals.NewEvent{Payload: text("e")} }
	_, err := o.free.States().Put(o.t.Context(), annals.StateWrite{ID: id, Payload: text("s"), Event: event()})
	if err == nil {
		_, err = o.free.States().Delete(o.t.Context(), annals.StateWrite{ID: id, After: 1, Event: event()})
	}
	if err == nil && !live {
		err = o.free.Journal().DeleteTo(o.t.Context(), id, annals.MaxSeqNr)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return id
}

// left is what the tables have of id.
func (o *interleaving) left(id annals.PersistenceID) string {
	o.t.Helper()
	var rows, state, snapshot string
	o.query(`SELECT (SELECT coalesce(string_agg(seq_nr || CASE WHEN deleted THEN '-' ELSE '+' END, ' ' ORDER BY seq_nr), '') FROM event_journal WHERE persistence_id = $1),
		(SELECT coalesce(string_agg(revision || '/' || state_ser_id, ' '), '') FROM durable_state WHERE persistence_id = $1),
		(SELECT coalesce(string_agg(seq_nr::text, ' '), '') FROM snapshot WHERE persistence_id = $1)`, string(id), &rows, &state, &snapshot)
	return fmt.Sprintf("rows [%s], state [%s], snapshot [%s]", rows, state, snapshot)
}

// begin begins a transaction that holds locks.
func (o *interleaving) begin(sql string, id annals.PersistenceID) {
	o.t.Helper()
	_, err := o.lock.Exec(o.t.Context(), "BEGIN")
	if err == nil {
		_, err = o.lock.Exec(o.t.Context(), sql, string(id))
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// end ends the transaction of begin.
func (o *interleaving) end() {
	o.t.Helper()
	if _, err := o.lock.Exec(o.t.Context(), "COMMIT"); err != nil {
		o.t.Error(err)
	}
}

// blocked reports whether a session of the free store waits for a lock.
func (o *interleaving) blocked() (blocked bool) {
	o.t.Helper()
	o.query(`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = left($1, 63) AND wait_event_type = 'Lock')`, o.name(), &blocked)
	return blocked
}

// query reads one row.
func (o *interleaving) query(sql, parameter string, to ...any) {
	o.t.Helper()
	if err := o.watch.QueryRow(o.t.Context(), sql, parameter).Scan(to...); err != nil {
		o.t.Fatal(err)
	}
}

// serial are the outcomes of the calls one after the other, in all orders. An answer's place is that of its call.
func (o *interleaving) serial(live bool, calls []call) []string {
	key := orderCase{live: live, calls: calls}.String()
	if outcomes, ok := o.outcomes[key]; ok {
		return outcomes
	}
	var outcomes []string
	for _, order := range permutations(len(calls)) {
		id, answers := o.entity(live), make([]string, len(calls))
		for _, i := range order {
			answers[i] = calls[i].run(o.t.Context(), o.free, id)
		}
		outcomes = append(outcomes, fmt.Sprintf("%q, %s", answers, o.left(id)))
	}
	o.outcomes[key] = outcomes
	return outcomes
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(p), i, n-1))
		}
	}
	return all
}

// run runs a case. It returns what is wrong with its outcome, which must be that of some order of the calls; "" when nothing is.
func (o *interleaving) run(c orderCase, held string) string {
	id, answers := o.entity(c.live), make([]string, len(c.calls))
	release, first := o.hold(c.calls[0], id, held)
	rest := make(chan struct{})
	o.looks.Store(0)
	go func() {
		defer close(rest)
		for i, c := range c.calls[1:] {
			answers[i+1] = c.run(o.t.Context(), o.free, id)
		}
	}()
	o.await(rest, func() bool { return o.blocked() || o.looks.Load() > 2 })
	release()
	answers[0] = <-first
	<-rest
	calls := c.calls
	if held == atRollback {
		calls, answers = calls[1:], answers[1:]
	}
	want, got := o.serial(c.live, calls), fmt.Sprintf("%q, %s", answers, o.left(id))
	if slices.Contains(want, got) {
		return ""
	}
	return fmt.Sprintf("got %s\nwant one of\n%s", got, strings.Join(want, "\n"))
}

var errRollback = errors.New("rolled back by the test")

// hold runs c and returns when it is held, or has ended without writing a row.
func (o *interleaving) hold(c call, id annals.PersistenceID, where string) (release func(), answer <-chan string) {
	answered := make(chan string, 1)
	if where == inStatement {
		o.begin("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", id)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if strings.HasPrefix(c.name, "append") { // the connections outside of transactions do not wait long for locks
				answered <- o.inTx(c, id, func() error { return nil })
			} else {
				answered <- c.run(o.t.Context(), o.held, id)
			}
		}()
		o.await(ended, func() (held bool) {
			o.query(`SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND ((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 1))`, string(id), &held)
			return held
		})
		return o.end, answered
	}
	reached, end := make(chan struct{}), make(chan struct{})
	go func() {
		answered <- o.inTx(c, id, func() error {
			close(reached)
			<-end
			if where == atRollback {
				return errRollback
			}
			return nil
		})
	}()
	<-reached
	return func() { close(end) }, answered
}

// inTx runs c in a transaction, and then before its end.
func (o *interleaving) inTx(c call, id annals.PersistenceID, then func() error) (answer string) {
	err := o.held.InTx(o.t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
		answer = c.run(ctx, in, id)
		return then()
	})
	if err != nil && !errors.Is(err, errRollback) {
		return err.Error()
	}
	return answer
}

// await returns when done is closed or reached returns true.
func (o *interleaving) await(done <-chan struct{}, reached func() bool) {
	o.t.Helper()
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond): // looks at the locks without a pause take the server more time than what it is to do
			if reached() {
				return
			}
		}
	}
}
