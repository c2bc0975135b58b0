package query_test

import (
	"context"
	"errors"
	"io"
	"slices"
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

// After an error of its context, a feed goes on where it was.
func TestFeedGoesOnAfterItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		for i := range 5 {
			for range 2 { // the first has caught up
				ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
				b, err := feed.Next(ctx, 10)
				stop()
				if len(b.Events) > 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("%+v, %v", b, err)
				}
			}
			write(t, s, "T|1", 1)
			began := time.Now()
			b, err := feed.Next(t.Context(), 10)
			if err != nil || len(b.Events) != 1 || b.Events[0].SeqNr != annals.SeqNr(i+1) || time.Since(began) > 50*time.Millisecond {
				t.Fatalf("%+v, %v after %v", b, err, time.Since(began))
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := feed.Next(t.Context(), 10); !errors.Is(err, annals.ErrClosed) {
			t.Errorf("%+v, %v, want ErrClosed", b, err)
		}
	})
}

// Of an entity that the feed has followed, it reports the numbers that were deleted before it could read them.
func TestFeedReportsDeletedNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var skipped []annals.SeqNr
		o := query.Options{OnSkip: func(id annals.PersistenceID, from, to annals.SeqNr) { skipped = append(skipped, from, to) }}
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, o)
		write(t, s, "T|1", 2)
		if b, err := feed.Next(t.Context(), 10); err != nil || len(b.Events) != 2 {
			t.Fatalf("%+v, %v", b, err)
		}
		write(t, s, "T|1", 5)
		if err := s.Journal().DeleteTo(t.Context(), "T|1", 5); err != nil {
			t.Fatal(err)
		}
		b, err := feed.Next(t.Context(), 10)
		if err != nil || len(b.Events) != 2 || b.Events[0].SeqNr != 6 || !slices.Equal(skipped, []annals.SeqNr{3, 5}) {
			t.Errorf("%+v, %v, skipped %v", b, err, skipped)
		}
	})
}

func TestNewFeedRefuses(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for name, c := range map[string]struct {
		store  annals.Store
		filter annals.Filter
		from   annals.Position
		o      query.Options
		want   error
	}{
		"After":        {s, annals.Filter{After: annals.Offset{SeqNr: 1}}, annals.Position{}, query.Options{}, annals.ErrInvalid},
		"Limit":        {s, annals.Filter{Limit: 1}, annals.Position{}, query.Options{}, annals.ErrInvalid},
		"Behind":       {s, annals.Filter{Behind: 1}, annals.Position{}, query.Options{}, annals.ErrInvalid},
		"slices":       {s, annals.Filter{Slices: annals.SliceRange{From: 5, To: 2000}}, annals.Position{}, query.Options{}, annals.ErrInvalid},
		"own slices":   {s, annals.Filter{}, annals.Position{Slices: annals.SliceRange{From: 5, To: 5}}, query.Options{}, annals.ErrInvalid},
		"other slices": {s, annals.Filter{Slices: annals.SliceRange{From: 5, To: 20}}, annals.Position{Slices: annals.SliceRange{From: 20, To: 30}}, query.Options{}, annals.ErrInvalid},
		"Poll":         {s, annals.Filter{}, annals.Position{}, query.Options{Poll: -1}, annals.ErrInvalid},
		"Window":       {s, annals.Filter{}, annals.Position{}, query.Options{Window: -1}, annals.ErrInvalid},
		"no queries":   {annals.Unsupported{}, annals.Filter{}, annals.Position{}, query.Options{}, annals.ErrUnsupported},
		"no tags":      {noTags{s}, annals.Filter{Tag: "a"}, annals.Position{}, query.Options{}, annals.ErrUnsupported},
	} {
		if _, err := query.NewFeed(c.store, c.filter, c.from, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

type noTags struct{ annals.Store }

func (s noTags) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.TagQueries = false
	return c
}
