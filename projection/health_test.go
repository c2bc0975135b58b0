package projection_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// checked checks a Health every five seconds.
type checked struct {
	t      *testing.T
	health *Health
}

// after checks for d, and demands that the projection fails at the end with problems of these codes, sorted. It returns how long it was healthy before.
func (c checked) after(d time.Duration, want ...string) (healthy time.Duration) {
	c.t.Helper()
	began, got := time.Now(), []string(nil)
	for {
		err, u := c.health.Check(c.t.Context()), (*Unhealthy)(nil)
		got = nil
		switch {
		case errors.As(err, &u):
			for _, p := range u.Problems {
				got = append(got, p.Code)
				if p.Text == "" || !p.Fault || !strings.Contains(u.Error(), p.Text) {
					c.t.Errorf("problem %+v in %q", p, u.Error())
				}
			}
			slices.Sort(got)
			got = slices.Compact(got)
		case err != nil:
			c.t.Fatal(err)
		default:
			healthy = time.Since(began)
		}
		if time.Since(began) >= d {
			break
		}
		time.Sleep(5 * time.Second)
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("after %v the projection has the problems %v, want %v", d, got, want)
	}
	return healthy
}

// A projection that works is healthy, also while runners are replaced and while it catches up. One that nobody runs is not, whether its runner ended, was stopped by an
// event, or was killed.
func TestHealthOfRunners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var log bytes.Buffer
		var stops, killed atomic.Bool
		make := func(over annals.Store) *Runner {
			return must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, over, func(context.Context, envelope) error {
				if stops.Load() {
					return errBroken
				}
				return nil
			}, Options{Ranges: 2, Logger: silent, OnError: func(context.Context, Failure) Verdict { return Stop }}))
		}
		health := checked{t, NewHealth(NewControl(s, "p"), s, HealthOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})}
		health.after(20 * time.Second)
		health.after(20*time.Second, "never-run")
		end := running(t, make(s))
		health.after(time.Minute)
		next := running(t, make(s)) // a rollout
		health.after(time.Minute)
		end()
		if healthy := health.after(2 * time.Minute); healthy < 2*time.Minute {
			t.Errorf("healthy for %v of a rollout", healthy)
		}
		next()
		if healthy := health.after(time.Minute, "nobody"); healthy < 20*time.Second || healthy > 40*time.Second {
			t.Errorf("a runner that ended is noticed after %v", healthy)
		}

		stopped := async(func() error { return make(s).Run(t.Context()) })
		health.after(time.Minute)
		stops.Store(true)
		add(t, s, 1, 20, 1)
		health.after(time.Minute, "nobody")
		if err := <-stopped; !errors.Is(err, errBroken) {
			t.Error(err)
		}

		stops.Store(false)
		end = running(t, make(&faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if killed.Load() {
				return faulty.Failed(c)
			}
			return run()
		}}))
		health.after(time.Minute)
		killed.Store(true)
		status, err := NewControl(s, "p").Status(t.Context(), s)
		if err != nil || status.Ranges[0].Runner == "" {
			t.Errorf("just after the kill: %+v, %v", status, err)
		}
		if healthy := health.after(2*time.Minute, "nobody"); healthy > time.Minute {
			t.Errorf("a runner that was killed is noticed after %v", healthy)
		}
		status, err = health.health.Status(t.Context())
		if problems := status.Problems(); err != nil || status.Ranges[0].Runner != "" || len(problems) != 2 || problems[1].Code != "nobody" || problems[1].Slices != status.Ranges[1].Slices {
			t.Errorf("long after the kill: %+v, %+v, %v", status, problems, err)
		}
		end()
		if failures, mended := strings.Count(log.String(), "is not healthy"), strings.Count(log.String(), "healthy again"); failures != 4 || mended != 3 {
			t.Errorf("logged %d failures and %d times that they are mended:\n%s", failures, mended, log.String())
		}
	})
}

// A range whose handler does not return, or whose event is tried again and again, does not go on.
func TestHealthOfHandlers(t *testing.T) {
	t.Parallel()
	for want, handle := range map[string]func(until <-chan struct{}) error{
		"hangs": func(until <-chan struct{}) error { <-until; return nil },
		"stuck": func(<-chan struct{}) error { return errBroken },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, until := memstore.New(), make(chan struct{})
				var broken atomic.Bool
				running(t, must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(context.Context, envelope) error {
					if broken.Load() {
						return handle(until)
					}
					return nil
				}, Options{Logger: silent, HandlerTimeout: 10 * time.Second})))
				health := checked{t, NewHealth(NewControl(s, "p"), s, HealthOptions{Logger: silent})}
				health.after(time.Minute)
				broken.Store(true)
				add(t, s, 1, 1, 1)
				if healthy := health.after(50*time.Second, want); healthy < 20*time.Second {
					t.Errorf("healthy for %v only", healthy)
				}
				broken.Store(false)
				close(until)
				health.after(time.Minute)
			})
		})
	}
}

// A runner without an entry in the record takes over from one whose handler does not return, also where each range has a runner.
func TestSpareRunnerTakesOverWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, until := memstore.New(), make(chan struct{})
		var calls atomic.Int64
		r := must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(context.Context, envelope) error {
			if calls.Add(1) == 1 {
				<-until
			}
			return nil
		}, Options{Logger: silent, HandlerTimeout: 10 * time.Second, Ranges: 1}))
		running(t, r)
		running(t, r) // the spare one
		time.Sleep(time.Minute)
		add(t, s, 1, 1, 1)
		time.Sleep(2 * time.Minute)
		if n, lag := calls.Load(), status(t, r.Control(), s).Lag; n != 2 || lag != 0 {
			t.Errorf("the handler was called %d times, and the lag is %d, want 2 and 0", n, lag)
		}
		close(until)
	})
}

// A projection that catches up is healthy, however far behind it is. One that does not catch up is not, slow or paused.
func TestHealthOfLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		for range 200 {
			add(t, s, 1, 1, 1)
			time.Sleep(time.Minute)
		}
		var slow atomic.Int64
		slow.Store(int64(time.Second))
		r := must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(context.Context, envelope) error {
			time.Sleep(time.Duration(slow.Load()))
			return nil
		}, Options{Logger: silent, BatchSize: 5}))
		running(t, r)
		health := checked{t, NewHealth(NewControl(s, "p"), s, HealthOptions{Logger: silent})}
		if healthy := health.after(5 * time.Minute); healthy < 5*time.Minute {
			t.Errorf("healthy for %v only while it catches up", healthy)
		}
		slow.Store(int64(5 * time.Second))
		for range 60 {
			add(t, s, 1, 1, 10)
			time.Sleep(5 * time.Second)
			_ = health.health.Check(t.Context())
		}
		health.after(time.Minute, "lags")
		slow.Store(0)
		health.after(5 * time.Minute)
		if err := r.Control().Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		health.after(10 * time.Minute)
		add(t, s, 1, 1, 1)
		if healthy := health.after(3*time.Minute, "lags"); healthy < time.Minute {
			t.Errorf("paused: healthy for %v", healthy)
		}
		if err := health.health.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "paused") {
			t.Error(err)
		}
		if err := r.Control().Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		health.after(time.Minute)
	})
}

// The lag time of a range that is there again, after the projection had other ranges, is not compared with what it was before.
func TestHealthForgetsRanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		add(t, s, 1, 8, 1)
		time.Sleep(2 * time.Minute)
		run := func(ranges int) (end func()) {
			end = running(t, must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(ctx context.Context, _ envelope) error {
				<-ctx.Done()
				return ctx.Err()
			}, Options{Logger: silent, Ranges: ranges})))
			time.Sleep(5 * time.Second)
			return end
		}
		health := checked{t, NewHealth(NewControl(s, "p"), s, HealthOptions{Logger: silent})}
		run(4)()
		health.after(0)
		run(2)()
		health.after(0)
		time.Sleep(time.Minute)
		run(4)
		health.after(0)
	})
}

// A store that cannot be read is no finding about the projection.
func TestHealthWithoutAStore(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	if err := NewHealth(NewControl(s, "p"), nil, HealthOptions{}).Check(t.Context()); !errors.Is(err, annals.ErrInvalid) {
		t.Error(err)
	}
	down := &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, _ func() error) error { return faulty.Failed(c) }}
	health := NewHealth(NewControl(down, "p"), s, HealthOptions{})
	_, statusErr := health.Status(t.Context())
	for _, err := range []error{health.Check(t.Context()), statusErr} {
		if errors.As(err, new(*Unhealthy)) || !errors.Is(err, annals.ErrUnavailable) {
			t.Error(err)
		}
	}
}

// A check whose store does not answer holds up no other one.
func TestChecksAreIndependent(t *testing.T) {
	t.Parallel()
	blocked, unblocked := make(chan bool), make(chan bool)
	var calls atomic.Int64
	s := memstore.New()
	h := NewHealth(NewControl(&faulty.Store{Store: s, Around: func(_ context.Context, _ *faulty.Call, run func() error) error {
		if calls.Add(1) == 1 {
			close(blocked)
			<-unblocked
		}
		return run()
	}}, "p"), s, HealthOptions{Logger: silent})
	first := async(func() error { return h.Check(t.Context()) })
	<-blocked
	second := async(func() error { return h.Check(t.Context()) })
	select {
	case err := <-second:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a check waits for another one")
	}
	close(unblocked)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// A range whose first look takes long, as in a journal with few events of the projection, is not stuck.
func TestLongFirstLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 1, 1)
		slow := &faulty.Store{Store: in.store, Around: func(_ context.Context, _ *faulty.Call, run func() error) error {
			time.Sleep(2 * time.Minute)
			return run()
		}}
		r := must(t)(in.once("p", slow, nil, Options{Logger: silent, Ranges: 1}))
		running(t, r)
		time.Sleep(time.Minute)
		if s := status(t, r.Control(), in.store); !s.Ranges[0].StuckSince.IsZero() {
			t.Errorf("stuck since %v", s.Ranges[0].StuckSince)
		}
	})
}

// A range that has parked an entity, or that another runner has had meanwhile, is not stuck.
func TestRangesThatAreNotStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, verdict := inMemory(memstore.New()), Park
		r := must(t)(in.once("p", in.store, func(envelope) error { return errBroken }, Options{Logger: silent, Ranges: 1, OnError: func(context.Context, Failure) Verdict { return verdict }}))
		end := running(t, r)
		stuck := func() time.Duration {
			time.Sleep(time.Minute)
			since := status(t, r.Control(), in.store).Ranges[0].StuckSince
			if since.IsZero() {
				return 0
			}
			return time.Since(since)
		}
		add(t, in.store, 1, 1, 1)
		if d := stuck(); d > 0 {
			t.Errorf("stuck for %v after an entity was parked", d)
		}
		verdict = Retry
		add(t, in.store, 2, 2, 1)
		if d := stuck(); d == 0 {
			t.Error("not stuck behind an event that fails")
		}
		end()
		time.Sleep(time.Hour)
		running(t, r)
		if d := stuck(); d == 0 || d > 2*time.Minute {
			t.Errorf("stuck for %v a minute after the range was taken again", d)
		}
	})
}
