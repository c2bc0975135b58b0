package query_test

import (
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/query"
)

// write appends n events to the entity, after the events that it has, with tags.
func write(t *testing.T, s annals.Store, id annals.PersistenceID, n int, tags ...string) {
	t.Helper()
	last, err := s.Journal().LastSeqNr(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	events := make([]annals.NewEvent, n)
	for i := range events {
		events[i] = annals.NewEvent{Payload: annals.Payload{SerializerID: 1, Data: []byte(strconv.Itoa(i))}, Tags: tags}
	}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: last, Events: events}); err != nil {
		t.Fatal(err)
	}
}

func newFeed(t *testing.T, s annals.Store, f annals.Filter, from annals.Position, o query.Options) *query.Feed {
	t.Helper()
	feed, err := query.NewFeed(s, f, from, o)
	if err != nil {
		t.Fatal(err)
	}
	return feed
}

// A feed hands over what is there, then waits, and is woken by the next write.
func TestFeedFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		for i := range 5 {
			write(t, s, annals.NewPersistenceID("T", strconv.Itoa(i)), 3)
		}
		feed := newFeed(t, s, annals.Filter{Type: "T"}, annals.Position{}, query.Options{})
		for i, want := range []int{4, 4, 4, 3} {
			b, err := feed.Next(t.Context(), 4)
			if err != nil || len(b.Events) != want || b.CaughtUp != (i == 3) {
				t.Fatalf("batch %d: %d events, caught up %v, %v", i+1, len(b.Events), b.CaughtUp, err)
			}
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			write(t, s, "T|1", 2)
		}()
		b, err := feed.Next(t.Context(), 10)
		if err != nil || len(b.Events) != 2 || b.Events[1].SeqNr != 5 || time.Since(began) > time.Second+50*time.Millisecond {
			t.Fatalf("%+v, %v after %v", b, err, time.Since(began))
		}
	})
}

func TestFeedEndsWhenCurrent(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	write(t, s, "T|1", 3)
	feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Current: true})
	if b, err := feed.Next(t.Context(), 2); err != nil || len(b.Events) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	write(t, s, "T|1", 1)
	if b, err := feed.Next(t.Context(), 2); err != nil || len(b.Events) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	if b, err := feed.Next(t.Context(), 2); !errors.Is(err, io.EOF) {
		t.Fatalf("%+v, %v", b, err)
	}
}
