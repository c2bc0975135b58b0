package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// Tables that the library for JavaScript wrote are read from a server, and refused with the settings of another library. Package esa reads
// those of all libraries without a server.
func TestESAGolden(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	var tables []plantest.Dump
	var want struct {
		Aggregates []struct {
			ID             struct{ Type, Value string }
			Events         []struct{ SeqNr annals.SeqNr }
			LatestSnapshot *struct{ SeqNr annals.SeqNr }
		}
	}
	unpack(t, plantest.Archive(t, "esa/testdata/esa-js-3.tar.bz2"), "default", &tables, &want)
	name := rand.Text()
	l := esa.Layout{Peer: esa.JS3, Shards: 32, Journal: esa.Journal{Table: name + "j"}, Snapshot: esa.Snapshot{Table: name + "s"}}
	openESA(t, c, l, dynamostore.Options{CreateTables: true})
	putAll(t, c, l.Journal.Table, tables[0].Items)
	putAll(t, c, l.Snapshot.Table, tables[1].Items)
	s := openESA(t, c, l, dynamostore.Options{}) // checks the rows
	for _, a := range want.Aggregates {
		id := annals.NewPersistenceID(a.ID.Type, a.ID.Value)
		last, err := s.Journal().LastSeqNr(ctx, id)
		if got := len(replay(ctx, t, s, id, 1, annals.MaxSeqNr)); err != nil || last != annals.SeqNr(len(a.Events)) || got != len(a.Events) {
			t.Errorf("%q: last number %d, %v, %d events, want %d", id, last, err, got, len(a.Events))
		}
		state, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		if err != nil || ok != (a.LatestSnapshot != nil) || ok && state.SeqNr != a.LatestSnapshot.SeqNr {
			t.Errorf("newest snapshot of %q: %d, %v, %v", id, state.SeqNr, ok, err)
		}
	}
	l.Peer, l.Snapshot.ActiveIndex = esa.Go, "snapshot-active-ttl-index"
	if _, err := dynamostore.Open(ctx, c, l, dynamostore.Options{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("opened as the tables of Go: %v", err)
	}
}

// The recorded defects of the libraries which need the pages of the service, or in which the service fails. Package esa has the others.
func TestESADefects(t *testing.T) {
	t.Parallel()
	c, p := clientBehindProxy(t)
	name := "d" + rand.Text()
	l := esa.Layout{Shards: 64, Journal: esa.Journal{Table: name + "j"}, Snapshot: esa.Snapshot{Table: name + "s", Keep: 100}}
	s := openESA(t, c, l, dynamostore.Options{CreateTables: true, Attempts: 2})
	ctx := t.Context()
	commit := func(id annals.PersistenceID, after annals.SeqNr, count, size int, state bool) annals.Commit {
		data := func(size int) annals.Payload {
			return annals.Payload{SerializerID: 31, Manifest: "Posted", Data: fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", size))}
		}
		com := annals.Commit{ID: id, After: after, Events: slices.Repeat([]annals.NewEvent{{Payload: data(size)}}, count)}
		if state {
			com.Snapshot = &annals.Snapshot{ID: id, SeqNr: after + annals.SeqNr(count), Payload: data(1)}
			com.Snapshot.Manifest = "Thread"
		}
		return com
	}
	appends := func(com annals.Commit) annals.SeqNr {
		t.Helper()
		r, err := s.Journal().Append(ctx, com)
		if err != nil {
			t.Fatal(err)
		}
		return r.SeqNr
	}

	// D1: the events are more than a page of the index.
	last := appends(commit("Thread|long", 0, 1, 1, true))
	for range 2 {
		last = appends(commit("Thread|long", last, 55, 12_000, false))
	}
	if got := len(replay(ctx, t, s, "Thread|long", 1, annals.MaxSeqNr)); got != 111 {
		t.Errorf("D1: %d events", got)
	}

	// D6: more copies than a request deletes.
	last = 0
	for range 40 {
		last = appends(commit("Thread|copies", last, 1, 1, true))
	}
	l.Snapshot.Keep = 5
	five := openESA(t, c, l, dynamostore.Options{})
	if err := esa.Retain(ctx, five, "Thread|copies"); err != nil {
		t.Errorf("D6: %v", err)
	}
	if n := p.Counts()["BatchWriteItem"]; n != 2 {
		t.Errorf("D6: %d requests for 35 deletes", n)
	}
	if _, ok, err := s.Snapshots().Latest(ctx, "Thread|copies", annals.SnapshotCriteria{MaxSeqNr: 35}); ok || err != nil {
		t.Errorf("D6: a copy that should be deleted: %v, %v", ok, err)
	}

	// D17: a call ends when its context does.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Journal().Append(ended, commit("Thread|long", 111, 1, 1, false)); !errors.Is(err, context.Canceled) {
		t.Errorf("D17: %v", err)
	}

	// D18: what is not a conflict is no ErrConflict, and the error of the SDK is in it.
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Operation == "TransactWriteItems" {
			return dynamo.Fault{Status: http.StatusInternalServerError}
		}
		return dynamo.Fault{}
	})
	_, err := s.Journal().Append(ctx, commit("Thread|long", 111, 1, 1, false))
	if _, sdk := errors.AsType[smithy.APIError](err); errors.Is(err, annals.ErrConflict) || !sdk {
		t.Errorf("D18: %v", err)
	}
	p.SetRule(nil)
}

func openESA(t *testing.T, c *dynamodb.Client, l esa.Layout, o dynamostore.Options) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.Open(t.Context(), c, l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
