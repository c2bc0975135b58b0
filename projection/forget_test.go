package projection_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// Of a forgotten entity nothing is left in the store of a projection, whether it runs or was stopped before, and whether the entity was parked. When the
// entity begins again it is handled whole.
func TestForgottenEntityLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("stopped %t, parked %t", stopped, broken), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					// The watermark is far behind, so that there is an offset beyond it.
					events, model := late.New(late.Options{Lateness: 24 * time.Hour, Fixed: true}), memstore.New()
					var fails atomic.Bool
					fails.Store(broken)
					h := &lateHandler{}
					follow := func() *Runner {
						source := Source[int]{Store: events, Type: "T", Codec: numbers}
						return must(t)(ExactlyOnce("p", source, model, func(_ context.Context, _ memstore.Tx, e envelope) error {
							if fails.Load() && e.ID == "T|1" {
								return errBroken
							}
							return h.handle(e)
						}, Options{Ranges: 1, Poll: 20 * time.Second, Lease: time.Minute, Logger: silent, OnError: park}))
					}
					var stop context.CancelFunc
					var ended <-chan error
					begin := func() {
						ctx, cancel := context.WithCancel(t.Context())
						stop, ended = cancel, async(func() error { return follow().Run(ctx) })
					}
					begin()
					end := func() {
						stop()
						if err := <-ended; err != nil {
							t.Error(err)
						}
					}
					add(t, events, 1, 2, 3)
					time.Sleep(36 * time.Hour) // all are visible
					if stopped {
						end()
					}
					c, err := cleanup.New(events, cleanup.Options{NoWriters: true})
					if err != nil {
						t.Fatal(err)
					}
					for range 2 {
						if _, err := c.ForgetEntities(t.Context(), cleanup.IDs("T|1")); err != nil {
							t.Fatal(err)
						}
						time.Sleep(20 * time.Minute)
					}
					if n, err := events.Journal().LastSeqNr(t.Context(), "T|1"); n != 0 || err != nil {
						t.Fatal(n, err)
					}
					// Offsets beyond the position, as of events that were handled not long ago.
					at := annals.Offset{ID: "T|1", SeqNr: 4, Time: time.Now().Add(-time.Minute)}
					if err := model.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{at}}); err != nil {
						t.Fatal(err)
					}
					control := NewControl(model, "p")
					if err := control.Forget(t.Context(), "T|1"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					wantNoTrace(t, model, "T|1")
					fails.Store(false)
					add(t, events, 1, 1, 4)
					if stopped {
						begin()
					}
					time.Sleep(36 * time.Hour)
					end()
					want := []string{"T|1/1", "T|1/2", "T|1/3", "T|1/1", "T|1/2", "T|1/3", "T|1/4"}
					if broken {
						want = want[3:]
					}
					equal(t, "handled", h.of("T|1"), want)
				})
			})
		}
	}
}

// wantNoTrace checks that the id is in no position and in no durable state of a projection.
func wantNoTrace(t *testing.T, s annals.Store, id annals.PersistenceID) {
	t.Helper()
	positions, err := s.Offsets().Load(t.Context(), "p", annals.SliceRange{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(positions); strings.Contains(text, string(id)+" ") {
		t.Errorf("positions: %s", text)
	}
	for state, err := range s.Query().States(t.Context(), annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(state.Data), `"`+string(id)+`"`) {
			t.Errorf("%s: %s", state.ID, state.Data)
		}
	}
}
