package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

func open(tb testing.TB, o sqlitestore.Options) *sqlitestore.Store {
	tb.Helper()
	return openAt(tb, filepath.Join(tb.TempDir(), "annals.db"), o)
}

func openAt(tb testing.TB, path string, o sqlitestore.Options) *sqlitestore.Store {
	tb.Helper()
	s, err := sqlitestore.Open(context.Background(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func payload(text string) annals.Payload {
	return annals.Payload{SerializerID: 1, Manifest: "text.v1", Data: []byte(text)}
}

func commit(id annals.PersistenceID, after annals.SeqNr, n int) annals.Commit {
	c := annals.Commit{ID: id, After: after, WriteID: annals.NewWriteID()}
	for i := range n {
		c.Events = append(c.Events, annals.NewEvent{Payload: payload(fmt.Sprint(int(after) + i + 1))})
	}
	return c
}

func mustAppend(tb testing.TB, s annals.Store, c annals.Commit) annals.Receipt {
	tb.Helper()
	r, err := s.Journal().Append(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func numbers(tb testing.TB, s annals.Store, id annals.PersistenceID) (got []annals.SeqNr) {
	tb.Helper()
	for e, err := range s.Journal().Replay(context.Background(), id, 1, annals.MaxSeqNr) {
		if err != nil {
			tb.Fatal(err)
		}
		if string(e.Data) != fmt.Sprint(e.SeqNr) {
			tb.Fatalf("event %d of %s holds %q", e.SeqNr, id, e.Data)
		}
		got = append(got, e.SeqNr)
	}
	return got
}

func TestSmoke(t *testing.T) {
	s := open(t, sqlitestore.Options{})
	ctx := t.Context()
	c := commit("T|1", 0, 3)
	r := mustAppend(t, s, c)
	r2 := mustAppend(t, s, c)
	if !r2.Repeated || r2.SeqNr != 3 || !r2.Time.Equal(r.Time) {
		t.Fatal(r, r2)
	}
	mustAppend(t, s, commit("T|1", 3, 2000))
	if n := numbers(t, s, "T|1"); len(n) != 2003 {
		t.Fatal(len(n))
	}
	if _, err := s.Journal().Append(ctx, commit("T|1", 3, 1)); !errors.Is(err, annals.ErrConflict) {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 20 {
				mustAppend(t, s, commit(annals.PersistenceID(fmt.Sprintf("T|w%d", w)), annals.SeqNr(i), 1))
			}
		})
	}
	wg.Wait()
	n := 0
	var last annals.Offset
	for e, err := range s.Query().Events(ctx, annals.Filter{Type: "T"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Offset().Compare(last) <= 0 {
			t.Fatal("order")
		}
		last = e.Offset()
		n++
	}
	if n != 2003+64*20 {
		t.Fatal(n)
	}
	if err := s.Journal().DeleteTo(ctx, "T|1", 1500); err != nil {
		t.Fatal(err)
	}
	if n := numbers(t, s, "T|1"); len(n) != 503 {
		t.Fatal(len(n))
	}
	for id, err := range s.Query().IDs(ctx, "T", "T|w50") {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Print(id, " ")
	}
	off, err := s.Query().Newest(ctx, annals.Filter{})
	fmt.Println(off, last, err)
	fmt.Println(sqlitestore.Commits(s))
	rr, err := s.States().Put(ctx, annals.StateWrite{ID: "S|1", Payload: payload("x"), Event: &annals.NewEvent{Payload: payload("1")}, Tags: []string{"a"}})
	fmt.Println(rr, err)
	rr, err = s.States().Put(ctx, annals.StateWrite{ID: "S|1", After: 1, Payload: payload("x")})
	fmt.Println(rr, err)
	rr, err = s.States().Put(ctx, annals.StateWrite{ID: "S|1", After: 2, Payload: payload("x"), Event: &annals.NewEvent{Payload: payload("3")}, Tags: []string{"a"}})
	fmt.Println(rr, err)
	fmt.Println(numbers(t, s, "S|1"))
	fmt.Println(s.States().Get(ctx, "S|1"))
}
