package query_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/query"
)

// tooLate returns a store whose event n, counted from 0, becomes visible after its delay, which can be longer than the Lateness.
func tooLate(delays map[int]time.Duration) *late.Store {
	return late.New(late.Options{Lateness: 2 * time.Second, Fixed: true, Delay: func(n int) time.Duration { return delays[n] }})
}

// numbersIn follows feed for d, and returns what it hands over of each entity.
func numbersIn(t *testing.T, feed *query.Feed[annals.Event], d time.Duration) map[annals.PersistenceID][]annals.SeqNr {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	all := map[annals.PersistenceID][]annals.SeqNr{}
	for _, e := range events(follow(t, ctx, feed, 10)) {
		if len(e.Data) == 0 {
			t.Errorf("%s number %d has no payload", e.ID, e.SeqNr)
		}
		all[e.ID] = append(all[e.ID], e.SeqNr)
	}
	return all
}

func wantNumbers(t *testing.T, what string, got, want map[annals.PersistenceID][]annals.SeqNr) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

type byEntity = map[annals.PersistenceID][]annals.SeqNr

// An event that becomes visible after the floor has passed it is handed over: before the next event of its entity, or by the next audit where
// there is none, also of an entity of which the feed knows nothing. Those after it in its entity come after it.
func TestEventBelowTheFloor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		before, after int           // events of the entity before the one that is late, and after it
		pause         time.Duration // until the later ones are written
		within        time.Duration // in which all are handed over
	}{
		{"of a known entity, with a successor", 2, 1, 10 * time.Second, 20 * time.Second},
		{"of a new entity, with a successor", 0, 1, 10 * time.Second, 20 * time.Second},
		{"of a known entity, without a successor", 2, 0, 0, 3 * time.Minute},
		{"of a new entity, without a successor", 0, 0, 0, 3 * time.Minute},
		{"whose successor is written when it is visible", 0, 1, 100 * time.Second, 110 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := tooLate(map[int]time.Duration{1 + c.before: 90 * time.Second})
			feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
			write(t, s, "T|other", 1)
			if c.before > 0 {
				write(t, s, "T|1", c.before)
			}
			got := numbersIn(t, feed, 5*time.Second)
			write(t, s, "T|1", 1)
			began := time.Now()
			more := numbersIn(t, feed, max(c.pause, time.Second))
			if c.after > 0 {
				write(t, s, "T|1", c.after)
			}
			rest := numbersIn(t, feed, c.within-time.Since(began))
			want := byEntity{"T|other": {1}}
			for n := 1; n <= c.before+1+c.after; n++ {
				want["T|1"] = append(want["T|1"], annals.SeqNr(n))
			}
			for _, part := range []byEntity{more, rest} {
				got["T|1"] = append(got["T|1"], part["T|1"]...)
			}
			wantNumbers(t, c.what, got, want)
		})
	}
}

// Several events of one entity are late, the lower ones later than the higher ones. They come in order.
func TestSeveralBelowTheFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := tooLate(map[int]time.Duration{0: 110 * time.Second, 1: 90 * time.Second, 2: 70 * time.Second, 3: 80 * time.Second})
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		wantNumbers(t, "before", numbersIn(t, feed, time.Second), byEntity{})
		write(t, s, "T|1", 4)
		wantNumbers(t, "late events", numbersIn(t, feed, 4*time.Minute), byEntity{"T|1": {1, 2, 3, 4}})
	})
}

// What a feed that goes on from a position finds behind it was handled before. What becomes visible there later was not, also when a later event of its
// entity is found first.
func TestAuditAfterARestart(t *testing.T) {
	t.Parallel()
	for _, want := range []byEntity{{"T|2": {1}}, {"T|2": {1, 2}}} {
		synctest.Test(t, func(t *testing.T) {
			s := tooLate(map[int]time.Duration{3: 60 * time.Second})
			feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
			write(t, s, "T|1", 3)
			write(t, s, "T|2", 1)
			time.Sleep(10 * time.Second)
			b, err := feed.Next(t.Context(), 10)
			if err != nil || len(b.Items) != 3 {
				t.Fatal(b, err)
			}
			for b, err = feed.Next(t.Context(), 10); !b.CaughtUp || err != nil; b, err = feed.Next(t.Context(), 10) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(want["T|2"]) > 1 {
				write(t, s, "T|2", 1)
			}
			feed = newFeed(t, s, annals.Filter{}, annals.Position{Through: b.Through}, query.Options{})
			wantNumbers(t, "after a restart", numbersIn(t, feed, 5*time.Minute), want)
		})
	}
}

// A feed that goes on from a position has not caught up with its first audit.
func TestCaughtUpAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := tooLate(nil)
		write(t, s, "T|1", 1)
		time.Sleep(10 * time.Second)
		through := annals.Offset{Time: time.Now().Add(-2 * time.Second)}
		write(t, s, "T|1", 1)
		b, err := newFeed(t, s, annals.Filter{}, annals.Position{Through: through}, query.Options{}).Next(t.Context(), 10)
		if err != nil || len(b.Items) != 1 {
			t.Errorf("the first batch has %d events, CaughtUp is %t, %v, want the event after the position", len(b.Items), b.CaughtUp, err)
		}
	})
}

// An event is found that is late by up to Audit, and not by a feed without audits.
func TestAuditBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		audit, late time.Duration
		want        byEntity
	}{
		{0, 118 * time.Second, byEntity{"T|1": {1}}},
		{10 * time.Second, 9 * time.Second, byEntity{"T|1": {1}}},
		{10 * time.Second, 30 * time.Second, byEntity{}},
		{-1, 30 * time.Second, byEntity{}},
	} {
		for shift := range 10 { // when the event is written between two audits
			synctest.Test(t, func(t *testing.T) {
				s := tooLate(map[int]time.Duration{0: c.late})
				feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Audit: c.audit})
				numbersIn(t, feed, time.Minute+time.Duration(shift)*time.Second)
				write(t, s, "T|1", 1)
				wantNumbers(t, fmt.Sprintf("audit %v, late by %v", c.audit, c.late), numbersIn(t, feed, 6*time.Minute), c.want)
			})
		}
	}
}

// An audit costs a query in each Audit, also of a store in which nothing happens.
func TestAuditCosts(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{true, false} {
		for audit, most := range map[time.Duration]int{0: 6, -1: 0} {
			synctest.Test(t, func(t *testing.T) {
				var audits int
				watched := late.Watched{Store: late.New(late.Options{Lateness: 2 * time.Second, Fixed: true})}
				s := faulty.Able{Store: &faulty.Store{Store: watched, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
					if f, ok := c.Arg.(*annals.Filter); ok && f.KeysOnly && c.Op == "query events" { // without payloads
						audits++
					}
					return run()
				}}}
				write(t, s, "T|1", 3)
				feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Audit: audit, Poll: time.Hour})
				numbersIn(t, feed, 10*time.Second)
				audits = 0
				for range 60 {
					if busy {
						write(t, s, "T|2", 10)
					}
					numbersIn(t, feed, 10*time.Second)
				}
				if audits > most || audits < most-2 {
					t.Errorf("audit %v, busy %t: %d audits in ten minutes, want %d at most, and at least two less", audit, busy, audits, most)
				}
			})
		}
	}
}

// A feed has nothing to note where it has handed over all that its first audit reads. So that audit comes when the feed is as old as Audit, and finds
// what has become visible since.
func TestFirstAuditWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var audits int
		s := &faulty.Store{Store: tooLate(map[int]time.Duration{3: 30 * time.Second}), Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if f, ok := c.Arg.(*annals.Filter); ok && f.KeysOnly && c.Op == "query events" {
				audits++
			}
			return run()
		}}
		write(t, s, "T|1", 3)
		write(t, s, "T|2", 1)
		write(t, s, "T|3", 1)
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		wantNumbers(t, "at first", numbersIn(t, feed, 110*time.Second), byEntity{"T|1": {1, 2, 3}, "T|3": {1}})
		if audits > 0 {
			t.Errorf("%d audits in the first two minutes", audits)
		}
		wantNumbers(t, "late events", numbersIn(t, feed, 20*time.Second), byEntity{"T|2": {1}})
	})
}

// Of the entities that an audit compares with, a bounded number is remembered.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const entities = 20_000
		delays := map[int]time.Duration{entities - 5: 20 * time.Second}
		s := tooLate(delays)
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Window: 10_000})
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		go func() {
			for i := range entities {
				write(t, s, annals.PersistenceID(fmt.Sprintf("T|%d", i)), 1)
				if i%100 == 0 {
					time.Sleep(100 * time.Millisecond)
				}
			}
		}()
		seen := map[annals.PersistenceID]int{}
		for _, e := range events(follow(t, ctx, feed, 1000)) {
			seen[e.ID]++
		}
		if len(seen) != entities {
			t.Errorf("%d of %d entities were handed over", len(seen), entities)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s was handed over %d times", id, n)
			}
		}
	})
}

// shifted is s with a watermark that is so far from that of s.
func shifted(s annals.Store, by *time.Duration) annals.Store {
	return &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		err := run()
		if c.Op == "query watermark" {
			at := c.Result.(*time.Time)
			*at = at.Add(*by)
		}
		return err
	}}
}

// The watermark goes back below the floor, as after a clock was set back, or beside a transaction that is old and begins to write. What is stored after
// it then is handed over, however far the floor is.
func TestWatermarkThatGoesBack(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		ahead, again := []time.Duration{time.Minute, time.Hour}[n%2], n > 1
		synctest.Test(t, func(t *testing.T) {
			by := ahead
			s := shifted(tooLate(nil), &by)
			feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
			write(t, s, "T|1", 2)
			wantNumbers(t, "before", numbersIn(t, feed, 5*time.Minute), byEntity{"T|1": {1, 2}})
			by = 0
			if again {
				feed = newFeed(t, s, annals.Filter{}, annals.Position{Through: annals.Offset{Time: time.Now().Add(ahead)}}, query.Options{})
			}
			numbersIn(t, feed, 10*time.Second)
			write(t, s, "T|2", 3)
			write(t, s, "T|1", 1)
			wantNumbers(t, fmt.Sprintf("after it went back by %v, with another feed: %t", ahead, again), numbersIn(t, feed, 3*time.Minute), byEntity{"T|1": {3}, "T|2": {1, 2, 3}})
		})
	}
}

// A transaction holds the watermark back for an hour after followers have passed its time, and then commits.
func TestWatermarkThatIsHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var by time.Duration
		s := shifted(tooLate(map[int]time.Duration{2: time.Hour}), &by)
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		write(t, s, "T|1", 2)
		wantNumbers(t, "before", numbersIn(t, feed, time.Minute), byEntity{"T|1": {1, 2}})
		write(t, s, "T|2", 1)
		began := time.Now()
		wantNumbers(t, "while it is passed", numbersIn(t, feed, 10*time.Minute), byEntity{})
		for time.Since(began) < time.Hour {
			by = -time.Since(began)
			numbersIn(t, feed, time.Second)
		}
		by = 0
		wantNumbers(t, "after the commit", numbersIn(t, feed, 3*time.Minute), byEntity{"T|2": {1}})
	})
}

// failsOver is a store of which the first read after a watermark fails. The store that answers then is behind: its watermark is, and it does not show
// what is after it.
type failsOver struct {
	*late.Store
	behind time.Time // zero: before
	fails  bool
}

func (s *failsOver) Query() annals.Query { return overQuery{s.Store.Query(), s} }

type overQuery struct {
	annals.Query
	s *failsOver
}

func (q overQuery) Watermark(ctx context.Context) (time.Time, error) {
	if !q.s.behind.IsZero() {
		return q.s.behind, nil
	}
	return q.Query.Watermark(ctx)
}

func (q overQuery) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		if q.s.fails {
			q.s.fails, q.s.behind = false, time.Now().Add(-15*time.Minute)
			yield(annals.Event{}, late.ErrInjected)
			return
		}
		for e, err := range q.Query.Events(ctx, f) {
			if err == nil && !q.s.behind.IsZero() && e.Time.After(q.s.behind) || !yield(e, err) {
				return
			}
		}
	}
}

// A read fails, and another server answers the next one, which is behind. The watermark of the first one does not count for what the second one shows.
func TestWatermarkOfAnotherServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &failsOver{Store: tooLate(nil)}
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		write(t, s, "T|1", 1)
		b, err := feed.Next(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		write(t, s, "T|2", 1)
		time.Sleep(10 * time.Minute)
		s.fails = true
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		for _, more := range follow(t, ctx, feed, 10) {
			b = more
		}
		if b.Through.Time.After(s.behind) {
			t.Errorf("Through is %v, and the server that was read shows everything before %v", b.Through, s.behind)
		}
	})
}
