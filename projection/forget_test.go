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
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/internal/faulty"
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
						}, Options{Ranges: 1, Poll: time.Minute, Lease: 5 * time.Minute, Logger: silent, OnError: park}))
					}
					end := running(t, follow())
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
						end = running(t, follow())
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

// Forget can be repeated after an error. A parked entity that begins again then is handled, by a runner that has not looked at its orders since.
func TestForgetAgainAfterAnError(t *testing.T) {
	t.Parallel()
	for failing := range int64(4) {
		t.Run(fmt.Sprintf("write %d fails", failing+1), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				var fails atomic.Bool
				fails.Store(true)
				h := &lateHandler{}
				in := inMemory(store)
				r := must(t)(in.once("p", in.store, func(e envelope) error {
					if fails.Load() && e.ID == "T|1" {
						return errBroken
					}
					return h.handle(e)
				}, Options{Ranges: 1, Poll: time.Hour, Lease: 12 * time.Hour, Logger: silent, OnError: park}))
				end := running(t, r)
				add(t, store, 1, 1, 3)
				time.Sleep(time.Minute)
				if err := store.Journal().DeleteTo(t.Context(), "T|1", 3); err != nil {
					t.Fatal(err)
				}
				if _, err := store.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1"}); err != nil {
					t.Fatal(err)
				}
				var writes atomic.Int64
				control := NewControl(&faulty.Store{Store: store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
					if c.Writes && writes.Add(1) == failing+1 {
						return faulty.Failed(c)
					}
					return run()
				}}, "p")
				if err := control.Forget(t.Context(), "T|1"); err == nil || control.Forget(t.Context(), "T|1") != nil {
					t.Fatal("there are fewer writes, or the second time fails, too:", err)
				}
				wantNoTrace(t, store, "T|1")
				fails.Store(false)
				add(t, store, 1, 1, 4)
				time.Sleep(time.Minute)
				end()
				equal(t, "handled", h.of("T|1"), []string{"T|1/1", "T|1/2", "T|1/3", "T|1/4"})
			})
		})
	}
}

// wantNoTrace checks that the id is in no position and in no durable state of a projection.
func wantNoTrace(t *testing.T, s annals.Store, id annals.PersistenceID) {
	t.Helper()
	for _, name := range []string{"p", "annals.past|p"} {
		positions, err := s.Offsets().Load(t.Context(), name, annals.SliceRange{})
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(positions); strings.Contains(text, string(id)+" ") {
			t.Errorf("positions of %s: %s", name, text)
		}
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
