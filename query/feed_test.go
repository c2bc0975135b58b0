package query_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/late"
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

func newFeed(t *testing.T, s annals.Store, f annals.Filter, from annals.Position, o query.Options) *query.Feed[annals.Event] {
	t.Helper()
	feed, err := query.NewFeed(s, f, from, o)
	if err != nil {
		t.Fatal(err)
	}
	return feed
}

// A filter and a position can be of two kinds of ranges where one of them is all slices.
func TestSlicesOfTwoKinds(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	near, far := annals.SliceRanges(2), annals.SpreadRanges(2)
	for _, c := range []struct {
		filter, from annals.SliceRange
		want         error
	}{
		{near[0], far[0], annals.ErrInvalid}, {far[1], near[1], annals.ErrInvalid}, {far[0], far[1], annals.ErrInvalid}, {far[0], annals.SpreadRanges(4)[1], nil},
		{near[1], annals.SpreadRanges(1)[0], nil}, {annals.SliceRanges(1)[0], far[1], nil}, {annals.SliceRange{}, far[0], nil}, {far[0], annals.SliceRange{}, nil},
	} {
		if _, err := query.NewFeed(s, annals.Filter{Slices: c.filter}, annals.Position{Slices: c.from}, query.Options{}); !errors.Is(err, c.want) {
			t.Errorf("a filter of %v from a position of %v: got %v, want %v", c.filter, c.from, err, c.want)
		} else if err != nil && c.filter != far[0] && !strings.Contains(err.Error(), "SpreadRanges") {
			t.Errorf("a filter of %v from a position of %v: %v", c.filter, c.from, err)
		}
	}
}

// An entity that was forgotten begins again with one commit. All its events are new.
func TestFeedOfAnEntityThatBeginsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		feed := newFeed(t, s, annals.Filter{Type: "T"}, annals.Position{}, query.Options{})
		for round := range 3 {
			write(t, s, "T|1", 5-round)
			for want := annals.SeqNr(1); want <= annals.SeqNr(5-round); want++ {
				b, err := feed.Next(t.Context(), 1)
				if err != nil || len(b.Items) != 1 || b.Items[0].SeqNr != want {
					t.Fatalf("round %d: got %v, error %v, want event %d", round, b.Items, err, want)
				}
			}
			if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
				t.Fatal(err)
			}
			if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1"}); !done || err != nil {
				t.Fatal(done, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// An entity that was forgotten begins again with one commit, of which the event that would be the next of its earlier life, or one after
// it, becomes visible first. All events are handed over.
func TestFeedOfAnEntityThatBeginsAgainLate(t *testing.T) {
	t.Parallel()
	for first := 2; first <= 5; first++ {
		for _, restarted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := late.New(late.Options{Lateness: 10 * time.Second, Fixed: true, Delay: func(n int) time.Duration {
					if n >= 2 && n < 1+first {
						return 2 * time.Second
					}
					return 0
				}})
				feed := newFeed(t, s, annals.Filter{Type: "T"}, annals.Position{}, query.Options{})
				write(t, s, "T|1", 2)
				b, err := feed.Next(t.Context(), 10)
				if err != nil || len(b.Items) != 2 {
					t.Fatal(b.Items, err)
				}
				if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
					t.Fatal(err)
				}
				time.Sleep(ability.ForgetAge + time.Second)
				if done, err := s.Forget(t.Context(), ability.Forgetting{ID: "T|1", Age: ability.ForgetAge}); !done || err != nil {
					t.Fatal(done, err)
				}
				if restarted {
					from := annals.Position{Through: b.Through, Offsets: []annals.Offset{b.Items[0].Offset(), b.Items[1].Offset()}}
					feed = newFeed(t, s, annals.Filter{Type: "T"}, from, query.Options{})
				}
				write(t, s, "T|1", 5)
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var got []annals.SeqNr
				for _, e := range events(follow(t, ctx, feed, 3)) {
					got = append(got, e.SeqNr)
				}
				if !slices.Equal(got, []annals.SeqNr{1, 2, 3, 4, 5}) {
					t.Errorf("event %d becomes visible first, restarted %t: got %v, want 1 to 5", first, restarted, got)
				}
			})
		}
	}
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
			if err != nil || len(b.Items) != want || b.CaughtUp != (i == 3) {
				t.Fatalf("batch %d: %d events, caught up %v, %v", i+1, len(b.Items), b.CaughtUp, err)
			}
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			write(t, s, "T|1", 2)
		}()
		b, err := feed.Next(t.Context(), 10)
		if err != nil || len(b.Items) != 2 || b.Items[1].SeqNr != 5 || time.Since(began) > time.Second+50*time.Millisecond {
			t.Fatalf("%+v, %v after %v", b, err, time.Since(began))
		}
	})
}

// A current feed ends after what was there when it began, however long it takes, and says no more than that of Through.
func TestFeedEndsWhenCurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		const n = 2500
		write(t, s, "T|1", n)
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Current: true})
		for want := annals.SeqNr(1); ; {
			b, err := feed.Next(t.Context(), 700)
			if errors.Is(err, io.EOF) {
				if want != n+1 {
					t.Errorf("it ended before %d", want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range b.Items {
				if e.SeqNr != want {
					t.Fatalf("number %d, want %d", e.SeqNr, want)
				}
				want++
			}
			time.Sleep(2 * time.Second)
			write(t, s, "T|2", 1)
			for e, err := range s.Query().Events(t.Context(), annals.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if e.ID == "T|2" && e.Offset().Compare(b.Through) <= 0 {
					t.Fatalf("Through is %v, and number %d of %v was not handed over", b.Through, e.SeqNr, e.Time)
				}
			}
		}
	})
}

// A feed that finds nothing says at once that it has caught up, and then waits.
func TestFeedOfAnEmptyStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []annals.Store{memstore.New(), late.New(late.Options{})} {
			feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour})
			began := time.Now()
			if b, err := feed.Next(t.Context(), 1); err != nil || !b.CaughtUp || time.Since(began) > 0 {
				t.Errorf("%+v, %v after %v", b, err, time.Since(began))
			}
		}
	})
}

// A feed whose last batch ended with a page says at once that there is no other page.
func TestFeedEndsWithAPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, "T|1", 1000)
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour})
		began := time.Now()
		for i, want := range []int{1000, 0} {
			if b, err := feed.Next(t.Context(), 1000); err != nil || len(b.Items) != want || b.CaughtUp != (i == 1) || time.Since(began) > 0 {
				t.Errorf("batch %d: %d events, caught up %v, %v after %v", i, len(b.Items), b.CaughtUp, err, time.Since(began))
			}
		}
	})
}

// Imported events whose times go back come each once: in the order of their numbers to a feed that knows the entity, in any order when
// another feed goes on after each of them.
func TestTimesThatGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		at := time.Now().Add(-time.Hour)
		for i, seconds := range []int{1, 9, 5, 7, 3} {
			c := annals.Commit{ID: "T|1", After: annals.SeqNr(i), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}, Time: at.Add(time.Duration(seconds) * time.Second)}}}
			if _, err := s.Journal().Append(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		for restart := range 2 {
			projection := strconv.Itoa(restart)
			var feed *query.Feed[annals.Event]
			seen := map[annals.SeqNr]bool{}
			for want := annals.SeqNr(1); ; {
				if feed == nil || restart == 1 {
					from, err := s.Offsets().Load(t.Context(), projection, annals.SliceRange{})
					if err != nil {
						t.Fatal(err)
					}
					feed = newFeed(t, s, annals.Filter{}, from[0], query.Options{Current: true})
				}
				b, err := feed.Next(t.Context(), 1)
				if errors.Is(err, io.EOF) || err == nil && len(b.Items) == 0 {
					if want != 6 {
						t.Errorf("restart %d: it ended before %d", restart, want)
					}
					break
				}
				if err != nil || seen[b.Items[0].SeqNr] || restart == 0 && b.Items[0].SeqNr != want {
					t.Fatalf("restart %d: %+v, %v, want number %d", restart, b, err, want)
				}
				seen[b.Items[0].SeqNr] = true
				want++
				p := annals.Progress{Projection: projection, Through: b.Through, Offsets: []annals.Offset{b.Items[0].Offset()}, Once: true}
				if err := s.Offsets().Save(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Imported events whose first number has not the first time come each once, also when another event follows them.
func TestFirstTimeIsNotFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, minutes := range [][]int{{2, 1}, {3, 1, 2}, {4, 1, 3, 2}, {2, 3, 1}} {
			s := memstore.New()
			at := time.Now().Add(-5 * time.Minute)
			for i, n := range minutes {
				c := annals.Commit{ID: "T|1", After: annals.SeqNr(i), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}, Time: at.Add(time.Duration(n) * time.Minute)}}}
				if _, err := s.Journal().Append(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
			var got []annals.SeqNr
			for len(got) <= len(minutes) {
				b, err := feed.Next(t.Context(), 10)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range b.Items {
					if slices.Contains(got, e.SeqNr) {
						t.Fatalf("times %v: number %d after %v", minutes, e.SeqNr, got)
					}
					got = append(got, e.SeqNr)
				}
				if len(got) == len(minutes) {
					write(t, s, "T|1", 1)
				}
			}
		}
	})
}

// A commit between the watermark and the read, in a store that had no watermark yet, does not hold Through back.
func TestFirstCommitWhileReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, wrote := memstore.New(), false
		s := faulty.Able{Store: &faulty.Store{Store: store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			err := run()
			if c.Op == "query watermark" && !wrote {
				wrote = true
				write(t, store, "T|1", 1)
			}
			return err
		}}}
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		time.AfterFunc(time.Second, func() { write(t, s, "T|1", 1) })
		batches := follow(t, ctx, feed, 10)
		if n := len(events(batches)); n != 2 {
			t.Errorf("%d events", n)
		}
		if through := batches[len(batches)-1].Through; through.Time.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("Through is %v", through)
		}
	})
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
				if len(b.Items) > 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("%+v, %v", b, err)
				}
			}
			write(t, s, "T|1", 1)
			began := time.Now()
			b, err := feed.Next(t.Context(), 10)
			if err != nil || len(b.Items) != 1 || b.Items[0].SeqNr != annals.SeqNr(i+1) || time.Since(began) > 50*time.Millisecond {
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
		if b, err := feed.Next(t.Context(), 10); err != nil || len(b.Items) != 2 {
			t.Fatalf("%+v, %v", b, err)
		}
		write(t, s, "T|1", 5)
		if err := s.Journal().DeleteTo(t.Context(), "T|1", 5); err != nil {
			t.Fatal(err)
		}
		b, err := feed.Next(t.Context(), 10)
		if err != nil || len(b.Items) != 2 || b.Items[0].SeqNr != 6 || !slices.Equal(skipped, []annals.SeqNr{3, 5}) {
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
		"no queries":   {driver.Unsupported(), annals.Filter{}, annals.Position{}, query.Options{}, annals.ErrUnsupported},
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
