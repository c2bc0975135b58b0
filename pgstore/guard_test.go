package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
)

// guarded runs a transaction that recovers an entity, then calls beside, and appends to another entity, which has after events.
func guarded(t *testing.T, s *pgstore.Store, id, other annals.PersistenceID, after annals.SeqNr, beside func()) error {
	t.Helper()
	return s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
		if _, err := ability.Recover(ctx, in, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); err != nil {
			return err
		}
		beside()
		_, err := in.Journal().Append(ctx, annals.Commit{ID: other, After: after, Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	})
}

// The plugins can remove all events of an entity that has a snapshot. The snapshot is what the transaction has read.
func TestGuardOfASnapshotWithoutEvents(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 5, Payload: text("all")}); err != nil {
		t.Fatal(err)
	}
	if err := guarded(t, s, "T|1", "T|2", 0, func() {}); err != nil {
		t.Errorf("nobody has written: %v", err)
	}
	err := guarded(t, s, "T|1", "T|2", 1, func() { appendOne(t, s, "T|1", 5) })
	wantKind(t, err, annals.ErrConflict)
}

// A transaction can read more entities than the server has locks.
func TestGuardOfManyEntities(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{WriteTimeout: time.Minute})
	ids := make([]annals.PersistenceID, 20_000)
	for i := range ids {
		ids[i] = annals.PersistenceID(fmt.Sprintf("T|%05d", i))
	}
	if err := pgstore.Guard(t.Context(), s, ids...); err != nil {
		t.Error(err)
	}
	appendOne(t, s, ids[len(ids)-1], 0)
	wantKind(t, pgstore.Guard(t.Context(), s, ids...), annals.ErrConflict)
}

// The guard looks at what others have committed since the transaction began. Where the server does not show that, the transaction is refused.
func TestGuardOfAnotherIsolation(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
			return err
		}
		if _, err := in.Journal().LastSeqNr(ctx, "T|1"); err != nil {
			return err
		}
		appendOne(t, s, "T|1", 0)
		_, err := in.Journal().Append(ctx, annals.Commit{ID: "T|2", Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	})
	wantKind(t, err, annals.ErrInvalid)
}

// trips sees each request to the server: a statement, or several that are sent together.
type trips struct {
	mu   sync.Mutex
	seen []trip
}

type trip struct {
	conn *pgx.Conn
	sql  string
}

// TraceQueryStart implements pgx.QueryTracer.
func (t *trips) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, trip{conn, data.SQL})
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (t *trips) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	return t.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: fmt.Sprintf("%d statements: %s", b.Batch.Len(), b.Batch.QueuedQueries[0].SQL)})
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// take are the requests of connections that have begun a transaction since the last time.
func (t *trips) take() (requests []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun := map[*pgx.Conn]bool{}
	for _, seen := range t.seen {
		if begun[seen.conn] = begun[seen.conn] || strings.EqualFold(seen.sql, "begin"); begun[seen.conn] {
			requests = append(requests, seen.sql)
		}
	}
	t.seen = nil
	return requests
}

// firstWords are the first two words of each request.
func firstWords(requests []string) (words []string) {
	for _, sql := range requests {
		two := strings.Fields(sql)
		words = append(words, strings.ToLower(strings.Join(two[:min(len(two), 2)], " ")))
	}
	return words
}

// A transaction pays for what it reads and does not write: one request before the commit, for any number of entities.
func TestRequestsOfGuards(t *testing.T) {
	t.Parallel()
	seen := &trips{}
	s := openTraced(t, postgres.Schema(t), seen, pgstore.Options{CreateTables: true})
	appendOne(t, s, "T|1", 0)
	appendOne(t, s, "T|2", 0)
	begin, end := []string{"begin"}, []string{"commit"}
	call := func(statements ...string) []string {
		return slices.Concat([]string{"savepoint annals"}, statements, []string{"release savepoint"})
	}
	write, number, recovery := call("insert into"), call("select coalesce((select"), call("(select last,")
	appends := func(ctx context.Context, in annals.Store, id annals.PersistenceID, after annals.SeqNr) error {
		_, err := in.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	}
	places := func(ctx context.Context, in annals.Store, id string) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err == nil {
			_, err = orders.Do(ctx, id, Place{Item: "pen"})
		}
		return err
	}
	for name, c := range map[string]struct {
		run  func(ctx context.Context, in annals.Store) error
		want []string
	}{
		"writes": {func(ctx context.Context, in annals.Store) error {
			return errors.Join(appends(ctx, in, "A|1", 0), appends(ctx, in, "A|2", 0))
		}, slices.Concat(begin, write, write, end)},
		"commands that write": {func(ctx context.Context, in annals.Store) error {
			return errors.Join(places(ctx, in, "a"), places(ctx, in, "b"))
		}, slices.Concat(begin, recovery, write, recovery, write, end)},
		"a read and a write of the same entity": {func(ctx context.Context, in annals.Store) error {
			after, err := in.Journal().LastSeqNr(ctx, "B|1")
			return errors.Join(err, appends(ctx, in, "B|1", after))
		}, slices.Concat(begin, number, write, end)},
		"a read and a write": {func(ctx context.Context, in annals.Store) error {
			_, err := in.Journal().LastSeqNr(ctx, "T|1")
			return errors.Join(err, appends(ctx, in, "C|1", 0))
		}, slices.Concat(begin, number, write, []string{"2 statements:"}, end)},
		"two reads": {func(ctx context.Context, in annals.Store) error {
			_, err1 := in.Journal().LastSeqNr(ctx, "T|1")
			_, err2 := in.Journal().LastSeqNr(ctx, "T|2")
			return errors.Join(err1, err2)
		}, slices.Concat(begin, number, number, []string{"3 statements:"}, end)},
	} {
		seen.take()
		err := s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error { return c.run(ctx, in) })
		if got := firstWords(seen.take()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, requests\n%q, want\n%q", name, err, got, c.want)
		}
	}
}

// A command with a key is one transaction of two writes. The keys and the entity are read before it, in reads that are not traced. A repetition has no
// transaction.
func TestRequestsOfKeys(t *testing.T) {
	t.Parallel()
	seen := &trips{}
	s := openTraced(t, postgres.Schema(t), seen, pgstore.Options{CreateTables: true})
	b := orderBehavior
	b.Reply = func(Placed, Place, []Placed) struct{} { return struct{}{} }
	orders, err := aggregate.New(s, b, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(statements ...string) []string {
		return slices.Concat([]string{"savepoint annals"}, statements, []string{"release savepoint"})
	}
	for i, want := range [][]string{slices.Concat([]string{"begin"}, call("insert into"), call("insert into"), []string{"commit"}), nil} {
		seen.take()
		_, err := orders.AskOnce(t.Context(), "k", "o", Place{Item: "pen"})
		if got := firstWords(seen.take()); err != nil || !slices.Equal(got, want) {
			t.Errorf("call %d: %v, requests\n%q, want\n%q", i+1, err, got, want)
		}
	}
}

// A projection whose position is in the transaction of its handler has nothing to guard.
func TestRequestsOfProjections(t *testing.T) {
	t.Parallel()
	seen := &trips{}
	s := openTraced(t, postgres.Schema(t), seen, pgstore.Options{CreateTables: true})
	for after := range annals.SeqNr(3) {
		appendOne(t, s, "T|1", after)
	}
	handled := make(chan struct{})
	r, err := projection.ExactlyOnce("p", projection.Source[annals.Payload]{Store: s, Type: "T", Codec: asStored{}}, s, func(_ context.Context, _ pgx.Tx, e projection.Envelope[annals.Payload]) error {
		if e.SeqNr == 3 {
			close(handled)
		}
		return nil
	}, projection.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx)
	}()
	<-handled
	stop()
	<-ended
	commits := 0
	for _, sql := range seen.take() {
		if strings.EqualFold(sql, "commit") {
			commits++
		}
		if strings.Contains(sql, "annals guard") {
			t.Errorf("the projection guards: %s", sql)
		}
	}
	if commits == 0 {
		t.Error("no transaction was seen")
	}
}
