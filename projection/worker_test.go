package projection

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/memstore"
)

func appendTo(t *testing.T, s annals.Store, id annals.PersistenceID, n int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	after, err := s.Journal().LastSeqNr(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	c := annals.Commit{ID: id, After: after}
	for range n {
		c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte("1")}})
	}
	if _, err := s.Journal().Append(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// counting returns a Runner that counts in the read model of s how many events were handled, in transactions that take long.
func counting(t *testing.T, s *memstore.Store, events annals.Store, o Options) *Runner {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	r, err := ExactlyOnce("p", Source[int]{Store: events, Codec: codec.JSON[int]("n")}, s, func(_ context.Context, tx memstore.Tx, _ Envelope[int]) error {
		n, _ := tx.Value("handled").(int)
		tx.SetValue("handled", n+1)
		return nil
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two workers without a lease handle the same events, which both have read before one of them commits. Of two transactions with the same
// event one is committed.
func TestSavesDemandThatEventsAreNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := counting(t, s, s, Options{BatchSize: 7})
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := newWorker(r, annals.SliceRange{From: 0, To: annals.SliceCount}, 0, nil).run(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("the worker ended with %v", err)
				}
			})
		}
		for range 10 {
			for _, id := range []annals.PersistenceID{"T|1", "T|2", "T|3"} {
				appendTo(t, s, id, 30)
			}
			time.Sleep(time.Minute)
		}
		cancel()
		both.Wait()
		if n := s.Value("handled"); n != 900 {
			t.Errorf("900 events were handled %d times", n)
		}
	})
}

// A worker keeps nothing of entities that were parked, or whose events were late, when all their events were handled.
func TestWorkerKeepsNoRetriedEntities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := late.New(late.Options{Lateness: 2 * time.Second, Fixed: true, Delay: func(n int) time.Duration {
			if n >= 8 { // those of T|4 and T|5
				return 90 * time.Second
			}
			return 0
		}})
		handled, mended := 0, atomic.Bool{}
		r, err := AtLeastOnce("p", Source[int]{Store: s, Codec: codec.JSON[int]("n")}, memstore.New(), func(_ context.Context, e Envelope[int]) error {
			if e.SeqNr > 1 && !mended.Load() {
				return errors.New("on purpose")
			}
			handled++
			return nil
		}, Options{Logger: slog.New(slog.DiscardHandler), OnError: func(context.Context, Failure) Verdict { return Park }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		w := newWorker(r, annals.SliceRange{From: 0, To: annals.SliceCount}, 0, nil)
		go func() { ended <- w.run(ctx) }()
		ids := []annals.PersistenceID{"T|1", "T|2", "T|3", "T|4", "T|5"}
		for range 2 {
			for _, id := range ids {
				appendTo(t, s, id, 1)
			}
			time.Sleep(20 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		mended.Store(true)
		for _, id := range ids {
			if err := parkedOf("p", id.Slice()).Change(ctx, r.offsets, func(p *parkedEntities) error {
				x, parked := (*p)[id]
				if x.Retry = true; !parked {
					return errors.New("the entity is not parked")
				}
				(*p)[id] = x
				return nil
			}); err != nil {
				t.Fatal(id, err)
			}
		}
		r.orders.Add(1)
		time.Sleep(10 * time.Minute)
		cancel()
		<-ended
		if l := w.lateness; handled != 10 || len(l.retried) > 0 || len(l.passed) > 0 {
			t.Errorf("handled %d events; kept are %v and %v", handled, l.retried, l.passed)
		}
	})
}

// What a retry has handled before the feed has handed it over is dropped when it comes, also when it comes event by event, and then forgotten.
func TestWorkerDropsWhatARetryHasHandled(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	event := func(n annals.SeqNr, loc *time.Location) annals.Event {
		return annals.Event{ID: "T|1", SeqNr: n, Time: at.Add(time.Duration(n) * time.Second).In(loc)}
	}
	s := memstore.New()
	w := newWorker(counting(t, s, s, Options{}), annals.SliceRange{From: 0, To: annals.SliceCount}, 0, nil)
	for _, first := range []annals.SeqNr{3, 4} { // 4 is not of the retry
		w.through = event(3, time.UTC).Offset()
		w.lateness.retried["T|1"] = w.through
		if left := w.late([]annals.Event{event(2, time.Local)}); len(left) > 0 || len(w.lateness.retried) != 1 {
			t.Errorf("event 2: %v are left, kept are %v", left, w.lateness.retried)
		}
		left := w.late([]annals.Event{event(first, time.Local)})
		if len(left) != int(first)-3 || len(w.lateness.retried) > 0 || len(w.lateness.waiting) > 0 {
			t.Errorf("event %d: %v are left, kept are %v and %v", first, left, w.lateness.retried, w.lateness.waiting)
		}
	}
}

// A worker that was replaced cannot commit what it has begun, and ends.
func TestWorkerIsFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := counting(t, s, s, Options{})
		all := annals.SliceRange{From: 0, To: annals.SliceCount}
		ended := make(chan error)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { ended <- newWorker(r, all, 1, nil).run(ctx) }()
		appendTo(t, s, "T|1", 3)
		time.Sleep(time.Minute)
		if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: all, Epoch: 2}); err != nil {
			t.Fatal(err)
		}
		appendTo(t, s, "T|1", 3)
		if err := <-ended; !errors.Is(err, annals.ErrFenced) || s.Value("handled") != 3 {
			t.Errorf("handled %v events, the worker ended with %v", s.Value("handled"), err)
		}
	})
}

// While there are no events, the position follows the clock of the store, so that a worker that begins later reads little. At the end of
// a worker it is saved at once.
func TestPositionFollowsTheClockWithoutEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		appendTo(t, s, "T|1", 3)
		through := func() time.Time {
			p, err := s.Offsets().Load(context.WithoutCancel(t.Context()), "p", annals.SliceRange{})
			if err != nil || len(p) == 0 {
				t.Fatal(p, err)
			}
			lowest := p[0].Through.Time
			for _, p := range p {
				if p.Through.Time.Before(lowest) {
					lowest = p.Through.Time
				}
			}
			return lowest
		}
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- counting(t, s, s, Options{}).Run(ctx) }()
			time.Sleep(time.Minute + time.Duration(i)*time.Second)
			if behind := time.Since(through()); behind > 20*time.Second {
				t.Errorf("the position is %v behind", behind)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if behind := time.Since(through()); behind > 12*time.Second {
				t.Errorf("at the end the position is %v behind", behind)
			}
			time.Sleep(time.Hour)
		}
	})
}

// calls counts the calls of a store.
type calls struct {
	sync.Mutex
	n map[string]int
}

func (c *calls) Start(ctx context.Context, call annals.Call) context.Context {
	c.Lock()
	defer c.Unlock()
	c.n[call.Op]++
	return ctx
}

func (c *calls) End(context.Context, annals.Call, annals.Result) {}

// A worker without events sends at most one request in a second: looks for events, saves of its position, and its part of the signs
// of life of its process.
func TestIdleWorkerSendsFewRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events func(s *memstore.Store) annals.Store
		free   string // an operation that sends no request
		ranges int
	}{
		"signals, 4 ranges": {events: func(s *memstore.Store) annals.Store { return s }, ranges: 4},
		"signals, 1 range":  {events: func(s *memstore.Store) annals.Store { return s }, ranges: 1},
		// Of the stores, only DynamoDB has no signals, and there the watermark is computed.
		"no signals, 4 ranges": {events: func(s *memstore.Store) annals.Store { return struct{ annals.Store }{s} }, ranges: 4, free: "query watermark"},
		"no signals, 1 range":  {events: func(s *memstore.Store) annals.Store { return struct{ annals.Store }{s} }, ranges: 1, free: "query watermark"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				counts := &calls{n: map[string]int{}}
				s, err := memstore.Open(memstore.Options{Observer: counts})
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range []annals.PersistenceID{"T|1", "T|2", "T|3", "T|4"} {
					appendTo(t, s, id, 10)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- counting(t, s, c.events(s), Options{Ranges: c.ranges}).Run(ctx) }()
				time.Sleep(time.Minute)
				counts.Lock()
				counts.n = map[string]int{}
				counts.Unlock()
				const seconds = 3600
				time.Sleep(seconds * time.Second)
				cancel()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				sum := 0
				for op, n := range counts.n {
					if op != c.free {
						sum += n
					}
				}
				if perSecond := float64(sum) / seconds / float64(c.ranges); perSecond > 1 || perSecond < 0.1 {
					t.Errorf("%.2f requests in a second: %v", perSecond, counts.n)
				}
			})
		})
	}
}
