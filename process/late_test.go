package process_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// Events that become visible after a Runner has passed their time, and after later events of their entity are visible, reach an instance once and
// in the order of their numbers: while a Runner runs, and when it was not running.
func TestLateEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delays := map[int]time.Duration{0: 100 * time.Second, 2: 100 * time.Second, 5: 100 * time.Second, 8: 100 * time.Second, 9: 90 * time.Second}
		events := late.New(late.Options{Lateness: 2 * time.Second, Fixed: true, Delay: func(n int) time.Duration { return delays[n] }})
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		if w.wants["Here"], err = aggregate.New(events, source("Here"), aggregate.Options{}); err != nil {
			t.Fatal(err)
		}
		tooLate := 0
		begin := func() func() {
			from := process.From(projection.Source[wish]{Store: events, Type: "Here", Codec: codec.JSON[wish]("Here")}, func(e projection.Envelope[wish]) string { return e.Value.For })
			to := process.To(toBoxes, func(context.Context, string, string, string) (int, error) { return 0, nil })
			r, err := process.New(w.store, listing, []process.Source{from}, []process.Recipients{to}, process.Options{Ranges: 1, Logger: silent})
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, r)
			return func() {
				stop()
				status, err := r.Inputs()[0].Status(t.Context(), events)
				if err != nil || status.Parked > 0 {
					t.Errorf("status %+v, %v", status, err)
				}
				tooLate = int(status.Late)
			}
		}
		want := func(names ...string) {
			for _, n := range names {
				w.do(t, "Here|h", wish{For: "a", Do: "cancel", Name: n})
			}
		}
		want("1", "2", "3", "4") // 1 and 3 are late
		time.Sleep(50 * time.Second)
		stop := begin()
		time.Sleep(5 * time.Minute)
		want("5", "6") // 6 is late
		time.Sleep(30 * time.Second)
		want("7")
		time.Sleep(30 * time.Second)
		stop()
		want("8", "9", "10") // 9 and 10 are late
		time.Sleep(time.Minute)
		stop = begin()
		time.Sleep(5 * time.Minute)
		stop()
		w.wantDone(t, "a", "cancel 1", "cancel 2", "cancel 3", "cancel 4", "cancel 5", "cancel 6", "cancel 7", "cancel 8", "cancel 9", "cancel 10")
		if tooLate == 0 {
			t.Error("no event was late")
		}
	})
}
