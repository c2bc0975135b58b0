package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// pair is two stores on one table. slow uses the proxy and beside does not, so that beside can act while a request of slow waits.
type pair struct {
	*testing.T
	proxy        *dynamo.FaultProxy
	slow, beside *dynamostore.Store
	client       *dynamodb.Client
	table        string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	c, proxy := clientBehindProxy(t)
	p := &pair{T: t, proxy: proxy, client: client(t)}
	p.beside, p.table = openIndexed(t, p.client, dynamostore.Options{})
	var err error
	if p.slow, err = dynamostore.Open(t.Context(), c, commit.Layout{Table: p.table, Index: "slices"}, dynamostore.Options{Attempts: 2}); err != nil {
		t.Fatal(err)
	}
	return p
}

// before calls do before the nth request of an operation from now on reaches the server.
func (p *pair) before(operation string, nth int, do func()) {
	p.proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == operation {
			if nth--; nth == 0 {
				do()
			}
		}
		return dynamo.Fault{}
	})
}

func (p *pair) append(id annals.PersistenceID, after annals.SeqNr, data ...string) {
	p.Helper()
	if _, err := p.beside.Journal().Append(p.Context(), annals.Commit{ID: id, After: after, Events: texts(data...)}); err != nil {
		p.Error(err)
	}
}

func (p *pair) refused(id annals.PersistenceID, after annals.SeqNr) {
	p.Helper()
	if _, err := p.beside.Journal().Append(p.Context(), annals.Commit{ID: id, After: after, Events: texts("late")}); !errors.Is(err, annals.ErrConflict) {
		p.Errorf("append after %d: %v", after, err)
	}
}

func (p *pair) deleteAll(id annals.PersistenceID) {
	p.Helper()
	if err := p.beside.Journal().DeleteTo(p.Context(), id, annals.MaxSeqNr); err != nil {
		p.Error(err)
	}
}

// deleted stores n commits of an entity and deletes all its events.
func (p *pair) deleted(id annals.PersistenceID, n int) {
	p.Helper()
	for i := range n {
		p.append(id, annals.SeqNr(i), "a")
	}
	p.deleteAll(id)
}

func (p *pair) forget(s *dynamostore.Store, id annals.PersistenceID) {
	p.Helper()
	if done, err := s.Unwrap().(ability.Forgetter).Forget(p.Context(), ability.Forgetting{ID: id}); !done || err != nil {
		p.Errorf("forget %q: %v, %v", id, done, err)
	}
}

func (p *pair) last(id annals.PersistenceID, want annals.SeqNr) {
	p.Helper()
	if last, err := p.beside.Journal().LastSeqNr(p.Context(), id); last != want || err != nil {
		p.Errorf("last number of %q: %d, %v, want %d", id, last, err, want)
	}
}

// items counts the items of an entity.
func (p *pair) items(id annals.PersistenceID) int {
	p.Helper()
	n := 0
	for pages := dynamodb.NewQueryPaginator(p.client, &dynamodb.QueryInput{TableName: &p.table, KeyConditionExpression: aws.String("pid = :id"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: plan.Item{":id": plan.S(string(id))}}); pages.HasMorePages(); {
		page, err := pages.NextPage(p.Context())
		if err != nil {
			p.Fatal(err)
		}
		n += len(page.Items)
	}
	return n
}

// Numbers of tombstones around the limits of one transaction and of two.
func TestForgetManyTombstones(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for n, requests := range map[int]int{97: 1, 98: 1, 99: 2, 196: 2, 197: 3} {
		id := annals.NewPersistenceID("Thing", strings.Repeat("x", n))
		p.deleted(id, n)
		before := p.proxy.Counts()["TransactWriteItems"]
		p.forget(p.slow, id)
		if sent := p.proxy.Counts()["TransactWriteItems"] - before; p.items(id) != 0 || sent != requests {
			t.Errorf("%d tombstones: %d items left after %d transactions", n, p.items(id), sent)
		}
	}
	if ids := collect(t, p.beside.Query().IDs(t.Context(), "", "")); len(ids) != 0 {
		t.Errorf("%q", ids)
	}
}

// A Forget that is interrupted between its transactions has changed nothing that writers or readers notice.
func TestForgetBrokenOff(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := annals.PersistenceID("Thing|1")
	p.deleted(id, 250)
	ctx, cancel := context.WithCancel(t.Context())
	p.before("TransactWriteItems", 2, cancel)
	if done, err := p.slow.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: id}); done || !errors.Is(err, annals.ErrUnknown) && !errors.Is(err, annals.ErrUnavailable) {
		t.Error(done, err)
	}
	if n := p.items(id); n == 0 || n == 250 {
		t.Fatalf("%d items left: it was not broken off half way", n)
	}
	p.last(id, 250)
	p.refused(id, 0)
	p.refused(id, 249)
	if ids := collect(t, p.beside.Query().IDs(t.Context(), "", "")); !slices.Equal(ids, []annals.PersistenceID{id}) {
		t.Errorf("%q", ids)
	}
	for _, from := range []annals.SeqNr{1, 100, 250} {
		if got := replay(t.Context(), t, p.beside, id, from, annals.MaxSeqNr); len(got) > 0 {
			t.Errorf("from %d: %q", from, got)
		}
	}
	p.append(id, 250, "b")
	if got := replay(t.Context(), t, p.beside, id, 1, annals.MaxSeqNr); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q", got)
	}
	if last, err := ability.Recover(t.Context(), p.beside, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); last != 251 || err != nil {
		t.Error(last, err)
	}
	p.deleteAll(id)
	p.forget(p.beside, id)
	if p.items(id) != 0 {
		t.Errorf("%d items left", p.items(id))
	}
}

// After a write between any two requests Forget returns ErrConflict, and the write stays.
func TestForgetBesideWrites(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 150, 250} {
		for step := range 1 + (n-1)/98 {
			p := newPair(t)
			id := annals.PersistenceID("Thing|1")
			p.deleted(id, n)
			p.before("TransactWriteItems", step+1, func() {
				p.refused(id, 0)
				p.append(id, annals.SeqNr(n), "b")
			})
			if done, err := p.slow.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: id}); done || !errors.Is(err, annals.ErrConflict) {
				t.Errorf("%d tombstones, a write before transaction %d: %v, %v", n, step+1, done, err)
			}
			p.last(id, annals.SeqNr(n+1))
			p.refused(id, 0)
			if got := replay(t.Context(), t, p.beside, id, 1, annals.MaxSeqNr); !slices.Equal(got, []string{"b"}) {
				t.Errorf("%q", got)
			}
		}
	}
	t.Run("a state", func(t *testing.T) {
		t.Parallel()
		p := newPair(t)
		id := annals.PersistenceID("Thing|1")
		p.deleted(id, 2)
		p.before("TransactWriteItems", 1, func() {
			if _, err := p.beside.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: text("state").Payload}); err != nil {
				t.Error(err)
			}
		})
		if done, err := p.slow.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: id}); done || !errors.Is(err, annals.ErrConflict) {
			t.Error(done, err)
		}
		p.last(id, 2)
	})
	t.Run("another forgetting and a new life", func(t *testing.T) {
		t.Parallel()
		p := newPair(t)
		id := annals.PersistenceID("Thing|1")
		p.deleted(id, 150)
		p.before("TransactWriteItems", 1, func() {
			p.forget(p.beside, id)
			for i := range annals.SeqNr(120) {
				p.append(id, i, "new")
			}
		})
		if done, err := p.slow.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: id}); done || !errors.Is(err, annals.ErrConflict) {
			t.Error(done, err)
		}
		if n := len(replay(t.Context(), t, p.beside, id, 1, annals.MaxSeqNr)); n != 120 {
			t.Errorf("%d events of the new life", n)
		}
	})
	t.Run("another forgetting", func(t *testing.T) {
		t.Parallel()
		p := newPair(t)
		id := annals.PersistenceID("Thing|1")
		p.deleted(id, 3)
		p.before("TransactWriteItems", 1, func() { p.forget(p.beside, id) })
		p.forget(p.slow, id)
	})
}

// A delete that began before a Forget does not delete events that were stored after it.
func TestDeleteAfterForget(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := annals.PersistenceID("Thing|1")
	p.append(id, 0, "a", "b")
	p.append(id, 2, "c", "d")
	next := func() {
		p.deleteAll(id)
		p.forget(p.beside, id)
		p.append(id, 0, "e", "f")
		p.append(id, 2, "g", "h")
	}
	p.before("UpdateItem", 1, next)
	if err := p.slow.Journal().DeleteTo(t.Context(), id, annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
	p.before("UpdateItem", 2, next)
	if err := p.slow.Journal().DeleteTo(t.Context(), id, 3); err != nil { // strips one commit and cuts the next
		t.Error(err)
	}
	if got := replay(t.Context(), t, p.beside, id, 1, annals.MaxSeqNr); !slices.Equal(got, []string{"e", "f", "g", "h"}) {
		t.Errorf("%q", got)
	}
}

// When an entity is forgotten between two pages of a read, the read does not end as if it were complete.
func TestReadersBesideForget(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := annals.PersistenceID("Thing|1")
	fill := func() {
		for i := range annals.SeqNr(12) {
			p.append(id, i, strings.Repeat("x", 300<<10))
		}
	}
	forget := func() {
		p.deleteAll(id)
		p.forget(p.beside, id)
	}
	n := 0
	for _, query := range []int{2, 3} { // before and after the query for the last page
		fill()
		p.before("Query", query, forget)
		var failed error
		n = 0
		for _, err := range p.slow.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				n++
			}
		}
		if n == 0 || n == 12 || !errors.Is(failed, annals.ErrTruncated) {
			t.Errorf("replay, forgotten before query %d: %d events, then %v", query, n, failed)
		}
	}
	fill()
	p.before("Query", 2, forget)
	n = 0
	last, err := ability.Recover(t.Context(), p.slow, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { n++; return nil })
	if last != 0 || n != 0 || err != nil {
		t.Errorf("recovery: %d events, last number %d, %v", n, last, err)
	}
	// The first event is deleted and not on the first page, so the snapshots are searched again, and the events are read forwards.
	for _, nth := range []int{13, 14, 17} {
		fill()
		if err := p.beside.Journal().DeleteTo(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		p.before("Query", nth, forget)
		var got []annals.SeqNr
		_, err := ability.Recover(t.Context(), p.slow, id, func(annals.Snapshot) error { return nil }, func(e annals.Event) error { got = append(got, e.SeqNr); return nil })
		if len(got) == 0 && err != nil || len(got) > 0 && !errors.Is(err, annals.ErrTruncated) {
			t.Errorf("recovery forwards, forgotten before query %d: %v, %v", nth, got, err)
		}
	}
}

// A replay of many pages, with snapshots at their edges, yields each event once.
func TestPagesBeginAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := annals.PersistenceID("Thing|1")
	big := make([]byte, 330<<10)
	_, _ = rand.Read(big)
	for i := range annals.SeqNr(10) {
		p.append(id, i, strings.Repeat("x", 300<<10))
		for n := range i % 5 {
			snapshot := annals.Snapshot{ID: id, SeqNr: i + 1, Payload: annals.Payload{SerializerID: 4, Data: big}}
			if n > 0 {
				snapshot.SeqNr += 10 * n // of no commit, but in the way
			}
			if err := p.beside.Snapshots().Save(t.Context(), snapshot); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(replay(t.Context(), t, p.beside, id, 1, annals.MaxSeqNr)); n != 10 {
		t.Errorf("%d events", n)
	}
}

// Forget also removes parts of a snapshot whose save was interrupted.
func TestForgetUnfinishedSnapshot(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := annals.PersistenceID("Thing|1")
	p.deleted(id, 1)
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random)
	p.proxy.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == "PutItem" && strings.Contains(string(r.Body), `"parts"`) { // the header
			return dynamo.Fault{Status: http.StatusInternalServerError}
		}
		return dynamo.Fault{}
	})
	if err := p.slow.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 1, Payload: annals.Payload{SerializerID: 4, Data: random}}); !errors.Is(err, annals.ErrUnknown) {
		t.Fatal(err)
	}
	if n := p.items(id); n != 4 {
		t.Fatalf("%d items, want three parts beside the tombstone", n)
	}
	if done, err := p.beside.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: id, Age: ability.ForgetAge}); done || err != nil {
		t.Error(done, err)
	}
	p.forget(p.beside, id)
	if n := p.items(id); n != 0 {
		t.Errorf("%d items left", n)
	}
}

// An entity may have the id of the settings item.
func TestForgetTheTablesName(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if err := p.beside.Unwrap().(ability.Skipper).SkipTo(t.Context(), "annals", 0, 41); err != nil {
		t.Fatal(err)
	}
	if done, err := p.beside.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "annals", Age: ability.ForgetAge}); done || err != nil {
		t.Error(done, err)
	}
	p.forget(p.beside, "annals")
	p.last("annals", 0)
	if _, err := dynamostore.Open(t.Context(), p.client, commit.Layout{Table: p.table, Index: "slices"}, dynamostore.Options{}); err != nil {
		t.Error(err)
	}
}

// The rows of the j5ik2o layout do not have the time of their delete.
func TestForgetIsNotClaimed(t *testing.T) {
	t.Parallel()
	s, _ := j5ik2oBehindProxy(t, j5ik2o.Journal{}, dynamostore.Options{})
	if _, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Thing|1"}); !errors.Is(err, annals.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := ability.Of[ability.Forgetter](s); !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), "when something was deleted") {
		t.Error(err)
	}
}
