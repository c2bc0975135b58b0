package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/warning"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// tooLate returns a store whose event n, counted from 0, becomes visible after its delay, which can be longer than the Lateness.
func tooLate(delays map[int]time.Duration) *late.Store {
	return late.New(late.Options{Lateness: 2 * time.Second, Fixed: true, Delay: func(n int) time.Duration { return delays[n] }})
}

// lateHandler is a handler that notes what it has handled, and fails as often as it is told.
type lateHandler struct {
	mu      sync.Mutex
	handled []string
	fails   int
}

func (h *lateHandler) handle(e envelope) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails > 0 && e.ID == "T|1" {
		h.fails--
		return errBroken
	}
	h.handled = append(h.handled, key(e))
	return nil
}

func (h *lateHandler) of(id annals.PersistenceID) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.handled {
		if strings.HasPrefix(k, string(id)+"/") {
			all = append(all, k)
		}
	}
	return all
}

// lateRunner makes a Runner of the kind for the events of s.
func lateRunner(t *testing.T, kind string, s annals.Store, model *memstore.Store, h *lateHandler, o Options) *Runner {
	t.Helper()
	o.Ranges = 1
	source := Source[int]{Store: s, Type: "T", Codec: numbers}
	if kind == "least" {
		return must(t)(AtLeastOnce("p", source, model, func(_ context.Context, e envelope) error { return h.handle(e) }, o))
	}
	return must(t)(ExactlyOnce("p", source, model, func(_ context.Context, _ memstore.Tx, e envelope) error { return h.handle(e) }, o))
}

// An event that becomes visible below the position is handled once, in the order of its entity, is counted and logged, with a later event of its
// entity and without one, also when its handler fails at first and when the projection ends meanwhile.
func TestEventsBelowThePosition(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"once", "least"} {
		for _, after := range []int{0, 2} { // later events of the entity
			for _, fails := range []int{0, 3} {
				for _, restart := range []time.Duration{0, 80 * time.Second, 100 * time.Second, 125 * time.Second} {
					t.Run(fmt.Sprintf("%s, %d events after it, fails %d times, restart after %v", kind, after, fails, restart), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							s, model, h := tooLate(map[int]time.Duration{3: 90 * time.Second}), memstore.New(), &lateHandler{}
							var log bytes.Buffer
							var mu sync.Mutex
							o := Options{Logger: slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return log.Write(b) }), nil)), Observer: &told{}}
							end := running(t, lateRunner(t, kind, s, model, h, o))
							add(t, s, 1, 2, 1)
							add(t, s, 1, 1, 1)
							time.Sleep(20 * time.Second)
							h.mu.Lock()
							h.fails = fails
							h.mu.Unlock()
							add(t, s, 1, 1, 1) // is visible after 90 s
							began := time.Now()
							if after > 0 {
								time.Sleep(30 * time.Second)
								add(t, s, 1, 1, after)
							}
							if restart > 0 {
								time.Sleep(restart - time.Since(began))
								end()
								end = running(t, lateRunner(t, kind, s, model, h, o))
							}
							time.Sleep(5 * time.Minute)
							var want []string
							for n := 1; n <= 3+after; n++ {
								want = append(want, fmt.Sprintf("T|1/%d", n))
							}
							lost := after == 0 && restart == 100*time.Second // it was visible when the second runner began
							if lost {
								want = want[:2]
							}
							equal(t, "handled", h.of("T|1"), want)
							c := lateRunner(t, kind, s, model, h, o).Control()
							status, err := c.Status(t.Context(), s)
							if err != nil || status.Parked > 0 || status.Lag > 0 {
								t.Errorf("status: %+v, %v", status, err)
							}
							if found := after == 0 && !lost || status.Late > 0; found && (status.Late != 1 || status.LateAt.Before(began)) {
								t.Errorf("%d late events, the last at %v", status.Late, status.LateAt)
							}
							mu.Lock()
							if n := strings.Count(log.String(), "became visible after"); n != int(status.Late) {
								t.Errorf("%d late events, logged %d times:\n%s", status.Late, n, log.String())
							}
							mu.Unlock()
							tells := slices.DeleteFunc(o.Observer.(*told).take(), func(s string) bool { return !strings.HasPrefix(s, "projection/p late") })
							if len(tells) != int(status.Late) {
								t.Errorf("the Observer was told %q", tells)
							}
							end()
						})
					})
				}
			}
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// A late event whose handler fails and that is to be parked stays parked, with the later ones of its entity. Many late events are handled, and are
// logged once a minute.
func TestManyEventsBelowThePosition(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"once", "least"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				delays := map[int]time.Duration{}
				for n := 1; n <= 200; n++ {
					delays[n] = 60*time.Second + time.Duration(n)*100*time.Millisecond
				}
				s, model, h := tooLate(delays), memstore.New(), &lateHandler{}
				o := Options{Logger: silent, Observer: &told{}, OnError: park}
				r := lateRunner(t, kind, s, model, h, o)
				running(t, r)
				add(t, s, 1, 1, 1)
				time.Sleep(10 * time.Second)
				h.mu.Lock()
				h.fails = 1
				h.mu.Unlock()
				add(t, s, 1, 100, 2)
				time.Sleep(5 * time.Minute)
				status, err := r.Control().Status(t.Context(), s)
				if err != nil || status.Parked != 1 || status.Late != 200 || status.Lag > 0 {
					t.Errorf("status: %+v, %v", status, err)
				}
				equal(t, "parked", parked(t, r.Control()), []string{"T|1/2"})
				if tells := slices.DeleteFunc(o.Observer.(*told).take(), func(s string) bool { return !strings.HasPrefix(s, "projection/p late") }); len(tells) < 1 || len(tells) > 3 {
					t.Errorf("the Observer was told %q", tells)
				}
				if err := r.Control().Retry(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				for i := 1; i <= 100; i++ {
					id := annals.NewPersistenceID("T", fmt.Sprint(i))
					want := []string{string(id) + "/1", string(id) + "/2"}
					if i == 1 {
						want = append(want, "T|1/3")
					}
					equal(t, "handled", h.of(id), want)
				}
			})
		})
	}
}

// What the store warns of reaches the log and the Observer once a minute, and the Status as long as it lasts.
func TestWarningsOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, model, h := tooLate(nil), memstore.New(), &lateHandler{}
		var warns atomic.Bool
		warns.Store(true)
		o := Options{Logger: silent, Observer: &told{}}
		r := lateRunner(t, "once", &faulty.Store{Store: s, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			if warns.Load() && c.Op == "query watermark" {
				warning.Tell(ctx, errors.New("a transaction is old"))
			}
			return run()
		}}, model, h, o)
		running(t, r)
		current := func() string {
			status, err := r.Control().Status(t.Context(), s)
			if err != nil || len(status.Ranges) != 1 {
				t.Fatal(status, err)
			}
			return status.Ranges[0].Warning
		}
		time.Sleep(170 * time.Second)
		equal(t, "warning", current(), "a transaction is old")
		if tells := slices.DeleteFunc(o.Observer.(*told).take(), func(s string) bool { return !strings.HasPrefix(s, "projection/p warning") }); len(tells) != 3 {
			t.Errorf("the Observer was told %q", tells)
		}
		warns.Store(false)
		time.Sleep(2 * time.Minute)
		equal(t, "warning", current(), "")
	})
}
