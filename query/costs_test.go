package query_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/query"
)

// follow calls Next until ctx ends, and returns the batches.
func follow(t *testing.T, ctx context.Context, feed *query.Feed[annals.Event], max int) (batches []query.Batch[annals.Event]) { //nolint:revive // t first, as in all helpers
	t.Helper()
	for {
		b, err := feed.Next(ctx, max)
		if err != nil {
			if ctx.Err() == nil {
				t.Fatal(err)
			}
			return batches
		}
		batches = append(batches, b)
	}
}

func events(batches []query.Batch[annals.Event]) (all []annals.Event) {
	for _, b := range batches {
		all = append(all, b.Items...)
	}
	return all
}

// A feed that has caught up asks for the watermark and reads once for each poll, where the store wakes it; its Through goes on.
func TestIdleFeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const poll, polls = 3 * time.Second, 40
		s := late.Watched{Store: late.New(late.Options{})}
		write(t, s, "T|1", 3)
		feed := newFeed(t, s, annals.Filter{Type: "T"}, annals.Position{}, query.Options{})
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if n := len(events(follow(t, ctx, feed, 10))); n != 3 {
			t.Fatalf("%d events, want 3", n)
		}
		s.Reads()
		ctx, stop = context.WithTimeout(t.Context(), polls*poll)
		defer stop()
		batches := follow(t, ctx, feed, 10)
		reads := 0
		for _, n := range s.Reads() {
			reads += n
		}
		if reads > 2*polls*11/10+2 {
			t.Errorf("%d reads in %d polls, want at most 2 for each", reads, polls)
		}
		if n := len(batches); n < polls/2 || n > polls*12/10 {
			t.Errorf("%d heartbeats in %d polls", n, polls)
		}
		for i, b := range batches {
			if len(b.Items) > 0 || !b.CaughtUp || !b.Through.Time.After(began) {
				t.Errorf("heartbeat %d: %+v", i, b)
			}
		}
		if last := batches[len(batches)-1].Through.Time; time.Since(last) > 4*poll {
			t.Errorf("Through is %v ago", time.Since(last))
		}
	})
}

// Without a Watcher a feed polls each second, at random times around it.
func TestPollsAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks []time.Time
		s := late.New(late.Options{Fault: func(op string) error {
			if op == "query events" {
				looks = append(looks, time.Now())
			}
			return nil
		}})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		follow(t, ctx, newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Audit: -1}), 10)
		var gaps []time.Duration
		for i, at := range looks[1:] {
			gaps = append(gaps, at.Sub(looks[i]))
		}
		least, most := slices.Min(gaps), slices.Max(gaps)
		if least < 900*time.Millisecond || most > 1100*time.Millisecond || most-least < 20*time.Millisecond {
			t.Errorf("polls are %v to %v apart", least, most)
		}
	})
}

// Where nothing wakes a query, it looks half as often as new events come, but not more often than every second, and as rarely as Poll says.
func TestPollsFollowTheRateOfEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ between, atLeast, atMost time.Duration }{ // two events; two looks
		{100 * time.Millisecond, 800 * time.Millisecond, 1100 * time.Millisecond},
		{time.Second, 1500 * time.Millisecond, 2700 * time.Millisecond},
		{2 * time.Second, 3 * time.Second, 5400 * time.Millisecond},
		{20 * time.Second, 8 * time.Second, 11 * time.Second},
	} {
		t.Run(c.between.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				s := late.New(late.Options{Delay: func(int) time.Duration { return 0 }, Fault: func(op string) error {
					if op == "query events" {
						looks++
					}
					return nil
				}})
				feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Poll: 10 * time.Second, Audit: -1})
				ctx, stop := context.WithCancel(t.Context())
				var writer sync.WaitGroup
				defer writer.Wait()
				defer stop()
				writer.Go(func() {
					for ctx.Err() == nil {
						write(t, s, "T|1", 1)
						time.Sleep(c.between)
					}
				})
				const begun, counted = time.Minute, 4 * time.Minute
				began, before := time.Now(), 0
				for time.Since(began) < begun+counted {
					b, err := feed.Next(ctx, 1000)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range b.Items {
						if age := time.Since(e.Time); age > 11*time.Second {
							t.Errorf("event %d was found after %v", e.SeqNr, age)
						}
					}
					if time.Since(began) < begun {
						before = looks
					}
				}
				if pause := counted / time.Duration(looks-before); pause < c.atLeast || pause > c.atMost {
					t.Errorf("%v from one look to the next, want %v to %v", pause, c.atLeast, c.atMost)
				}
			})
		})
	}
}

// So does a query of one entity.
func TestPollsOfAnEntityFollowTheRateOfEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := late.New(late.Options{Delay: func(int) time.Duration { return 0 }})
		write(t, s, "T|1", 1)
		for e, err := range query.EventsOf(t.Context(), s, "T|1", 1, 60, query.Options{Poll: 10 * time.Second}) {
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Since(e.Time); e.SeqNr > 30 && age > 3*time.Second {
				t.Errorf("event %d was found after %v", e.SeqNr, age)
			}
			if e.SeqNr == 1 {
				go func() {
					for range 59 {
						time.Sleep(time.Second)
						write(t, s, "T|1", 1)
					}
				}()
			}
		}
	})
}

// The time of a poll runs on while the caller is busy, and from one call of Next to the next, however short the context of each call is.
func TestPollsRunOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := late.New(late.Options{Delay: func(int) time.Duration { return 0 }})
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Poll: 10 * time.Second})
		if b, err := feed.Next(t.Context(), 10); err != nil || !b.CaughtUp {
			t.Fatalf("%+v, %v", b, err)
		}
		write(t, s, "T|1", 1)
		began, n := time.Now(), 0
		for n == 0 && time.Since(began) < time.Minute {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			b, _ := feed.Next(ctx, 10)
			stop()
			n += len(b.Items)
		}
		if d := time.Since(began); n != 1 || d > 12*time.Second {
			t.Errorf("%d events after %v", n, d)
		}
		write(t, s, "T|1", 1)
		time.Sleep(20 * time.Second) // the caller is busy
		began = time.Now()
		if b, err := feed.Next(t.Context(), 10); err != nil || len(b.Items) != 1 || time.Since(began) > time.Millisecond {
			t.Errorf("%+v, %v after %v", b, err, time.Since(began))
		}
	})
}

// A feed that catches up reads page by page, also where many events have one time, and asks the journal nothing.
func TestCatchUpCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := late.New(late.Options{Grain: 500 * time.Millisecond})
		var middle time.Time
		for range 2 {
			middle = time.Now()
			for i := range 500 {
				write(t, s, annals.NewPersistenceID("T", strconv.Itoa(i)), 5)
			}
			time.Sleep(3 * time.Second)
		}
		for through, want := range map[annals.Offset]int{{}: 5000, {Time: middle}: 2500} {
			feed := newFeed(t, s, annals.Filter{}, annals.Position{Through: through}, query.Options{Current: true})
			s.Reads()
			n := 0
			for b, err := feed.Next(t.Context(), 100); err == nil; b, err = feed.Next(t.Context(), 100) {
				n += len(b.Items)
			}
			if r := s.Reads(); n != want || r["replay"] != 0 || r["query events"] > 6 || r["query watermark"] != 1 {
				t.Errorf("%d events with %v", n, r)
			}
		}
	})
}

// A feed does not read the whole window again for each new event.
func TestHeadCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var values atomic.Int64
		s := late.Watched{Store: late.New(late.Options{Lateness: 30 * time.Second, Fixed: true, Fault: func(op string) error {
			if op == "next value" {
				values.Add(1)
			}
			return nil
		}})}
		const written = 3000 // in a minute
		go func() {
			for i := range written {
				write(t, s, annals.NewPersistenceID("T", strconv.Itoa(i%20)), 1)
				time.Sleep(time.Minute / written)
			}
		}()
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		got := len(events(follow(t, ctx, newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{}), 100)))
		if got != written {
			t.Errorf("%d events, want %d", got, written)
		}
		if per := float64(values.Load()) / written; per > 30 {
			t.Errorf("each event was read %.1f times", per)
		}
	})
}

// A read that fails is repeated, less and less often, and nothing is lost.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const down = 20 * time.Second
		began := time.Now()
		s := late.New(late.Options{Fault: func(string) error {
			if time.Since(began) < down {
				return late.ErrInjected
			}
			return nil
		}})
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}); err != nil {
			t.Fatal(err)
		}
		var tries []int
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{OnRetry: func(_ error, try int) { tries = append(tries, try) }})
		b, err := feed.Next(t.Context(), 10)
		if err != nil || len(b.Items) != 1 || time.Since(began) > down+time.Second {
			t.Fatalf("%+v, %v after %v", b, err, time.Since(began))
		}
		if n := len(tries); n < 40 || n > 200 || tries[0] != 0 || tries[n-1] != n-1 {
			t.Errorf("the tries were %v", tries)
		}
	})
}

// ErrInvalid ends queries before a read has worked, because they may ask for what is wrong. Afterwards it is repeated: it is what a server says
// of a table that is renamed, or a right that is missing for a while.
func TestServerThatDeniesReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var until time.Time
		s := late.New(late.Options{Lateness: time.Millisecond, Fault: func(string) error {
			if time.Now().Before(until) {
				return &annals.Error{Op: "test", Kind: annals.ErrInvalid}
			}
			return nil
		}})
		next := func() { // writes an event, and denies reads for a second
			write(t, s, "T|1", 1)
			until = time.Now().Add(time.Second)
		}
		next()
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{})
		if _, err := feed.Next(t.Context(), 10); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a feed: %v", err)
		}
		for _, err := range query.EventsOf(t.Context(), s, "T|1", 1, 2, query.Options{}) {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("a query over one entity: %v", err)
			}
		}
		time.Sleep(time.Minute)
		for range 2 {
			if b, err := feed.Next(t.Context(), 10); err != nil || len(b.Items) != 1 {
				t.Errorf("a feed, while reads were denied: %+v, %v", b, err)
			}
			next()
		}
		time.Sleep(time.Minute)
		n := 0
		for _, err := range query.EventsOf(t.Context(), s, "T|1", 1, 4, query.Options{}) {
			if err != nil {
				t.Fatalf("a query over one entity, while reads were denied: %v", err)
			}
			if n++; n == 3 {
				next()
			}
		}
		if n != 4 {
			t.Errorf("%d events, want 4", n)
		}
	})
}

// The delay from a commit to Next is that with which the event becomes visible, and little more: also for what is a little late. What is very late
// is found by the next look from the floor.
func TestLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lateness = 8 * time.Second
		delay := func(n int) time.Duration {
			return map[int]time.Duration{0: 50 * time.Millisecond, 5: lateness * 3 / 4}[n%10]
		}
		s := late.Watched{Store: late.New(late.Options{Lateness: lateness, Fixed: true, Delay: delay})}
		const n = 2000
		written := make([]time.Time, n)
		go func() {
			for i := range n {
				written[i] = time.Now()
				write(t, s, annals.NewPersistenceID("T", strconv.Itoa(i)), 1)
				time.Sleep(20 * time.Millisecond)
			}
		}()
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour})
		for got := 0; got < n; {
			b, err := feed.Next(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			got += len(b.Items)
			for _, e := range b.Items {
				i, _ := strconv.Atoi(e.ID.EntityID())
				most := delay(i) + 20*time.Millisecond
				if delay(i) > time.Second {
					most += lateness / 4
				}
				if d := time.Since(written[i]); d > most {
					t.Errorf("event %d came after %v, want %v", i, d, most)
				}
			}
		}
	})
}

// What a look at the head has missed, the next look from the floor finds when it is due, without a signal or a poll.
func TestLateEventAfterTheLastSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delay := func(n int) time.Duration { return []time.Duration{2500 * time.Millisecond, 0}[n] }
		s := late.Watched{Store: late.New(late.Options{Lateness: 8 * time.Second, Fixed: true, Delay: delay})}
		began := time.Now()
		write(t, s, "T|1", 1)
		time.AfterFunc(2400*time.Millisecond, func() { write(t, s, "T|2", 1) })
		feed := newFeed(t, s, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour})
		for n := 0; n < 2; {
			b, err := feed.Next(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			n += len(b.Items)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// However often a store signals, a feed looks at most a hundred times a second.
func TestSignalsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := late.Watched{Store: late.New(late.Options{})}
		go func() {
			for range 2000 {
				write(t, s, "U|1", 1)
				time.Sleep(500 * time.Microsecond)
			}
		}()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		follow(t, ctx, newFeed(t, s, annals.Filter{Type: "T"}, annals.Position{}, query.Options{}), 10)
		if n := s.Reads()["query events"]; n > 102 {
			t.Errorf("%d looks in a second", n)
		}
		time.Sleep(time.Second)
	})
}

// A look at the head after a signal reads the slices in which something was written, and each look from the floor reads all.
func TestLooksWhereSomethingWasWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watched := late.Watched{Store: late.New(late.Options{Lateness: 8 * time.Second, Fixed: true, Delay: func(int) time.Duration { return 0 }})}
		var looks []annals.SliceRange
		s := &faulty.Store{Store: watched, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Op == "query events" {
				looks = append(looks, c.Arg.(*annals.Filter).Slices)
			}
			return run()
		}}
		feed := newFeed(t, faulty.Able{Store: s}, annals.Filter{Slices: annals.SliceRange{From: 5, To: 1000}}, annals.Position{}, query.Options{Poll: time.Hour, Audit: -1})
		var ids []annals.PersistenceID
		for i := range 200 {
			if id := annals.NewPersistenceID("T", strconv.Itoa(i)); id.Slice() >= 5 && id.Slice() < 1000 {
				ids = append(ids, id)
			}
		}
		narrow := 0
		for _, id := range ids {
			write(t, watched, id, 1)
			looks = nil
			b, err := feed.Next(t.Context(), 10)
			if err != nil || len(b.Items) != 1 || b.Items[0].ID != id {
				t.Fatalf("after a write of %s: %v, error %v", id, b.Items, err)
			}
			switch r := looks[len(looks)-1]; {
			case !r.Contains(id.Slice()):
				t.Fatalf("%v was read for slice %d", r, id.Slice())
			case r.To-r.From <= 16 && r.From >= 5 && r.To <= 1000:
				narrow++
			case r != annals.SliceRange{From: 5, To: 1000}:
				t.Fatalf("%v was read", r)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if seconds := len(ids) / 20; narrow < len(ids)-2*seconds-4 || narrow > len(ids)-seconds/3 {
			t.Errorf("%d of %d looks were of a few slices", narrow, len(ids))
		}
	})
}
