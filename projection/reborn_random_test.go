package projection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// rebirths is a random run of entities that are written, forgotten and begin again, while a projection is started, stopped and reset between any two
// steps. The value of an event is its life and its number.
type rebirths struct {
	random    *random.Source
	events    annals.Store
	forgetter ability.Forgetter // of events
	atOnce    bool              // entities are forgotten at once
	runner    func() *Runner
	model     annals.Store

	lives map[annals.PersistenceID]int
	stop  func() // ends the runner; nil when none is running

	mu      sync.Mutex
	handled map[string][]annals.SeqNr // by entity and life, since the last reset
	effects map[string]bool           // events that were handled, also before
	rebuilt map[string]bool           // those before the last reset
}

func lifeOf(id annals.PersistenceID, life int) string { return fmt.Sprintf("%s in life %d", id, life) }

func newRebirths(t *testing.T, random *random.Source) *rebirths {
	t.Helper()
	r := &rebirths{random: random, lives: map[annals.PersistenceID]int{}, handled: map[string][]annals.SeqNr{}, effects: map[string]bool{}}
	model := memstore.New()
	r.model = model
	r.events = memstore.New()
	atLeastOnce := random.OneIn(2)
	if r.atOnce = random.OneIn(4); !r.atOnce && !random.OneIn(3) {
		r.events = late.New(late.Options{Seed: random.Uint64(), Lateness: 20 * time.Second, Fixed: random.OneIn(2), Grain: time.Millisecond + random.Below(time.Second)})
	}
	var err error
	if r.forgetter, err = ability.Of[ability.Forgetter](r.events); err != nil {
		t.Fatal(err)
	}
	handle := func(_ context.Context, e envelope) error {
		if atLeastOnce && e.SeqNr%3 == 0 { // not in a transaction of memstore, which blocks the others
			time.Sleep(random.Below(time.Second))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		key := lifeOf(e.ID, e.Value)
		r.handled[key] = append(r.handled[key], e.SeqNr)
		event := fmt.Sprintf("event %d of %s", e.SeqNr, key)
		if e.Rebuilding != r.rebuilt[event] {
			t.Errorf("%s: Rebuilding is %t", event, e.Rebuilding)
		}
		r.effects[event] = true
		return nil
	}
	source := Source[int]{Store: r.events, Type: "T", Codec: numbers}
	r.runner = func() *Runner {
		o := Options{Ranges: 1, BatchSize: 1 + r.random.IntN(4), Logger: silent}
		if atLeastOnce {
			return must(t)(AtLeastOnce("p", source, model, handle, o))
		}
		return must(t)(ExactlyOnce("p", source, model, func(ctx context.Context, _ memstore.Tx, e envelope) error { return handle(ctx, e) }, o))
	}
	return r
}

// toggle starts the projection, or ends it.
func (r *rebirths) toggle(t *testing.T) {
	t.Helper()
	if r.stop != nil {
		r.stop()
		r.stop = nil
		return
	}
	r.stop = running(t, r.runner())
}

// reset resets the projection to its beginning.
func (r *rebirths) reset(t *testing.T) {
	t.Helper()
	c := NewControl(r.model, "p")
	if len(status(t, c, r.events).Ranges) == 0 {
		return // it has not been run
	}
	if err := c.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.rebuilt = maps.Clone(r.effects)
	clear(r.handled)
	r.mu.Unlock()
	if err := errors.Join(c.Reset(t.Context(), annals.Offset{}), c.Resume(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (r *rebirths) append(t *testing.T, id annals.PersistenceID) {
	t.Helper()
	after, err := r.events.Journal().LastSeqNr(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := numbers.Encode(r.lives[id])
	if err != nil {
		t.Fatal(err)
	}
	c := annals.Commit{ID: id, After: after, Events: slices.Repeat([]annals.NewEvent{{Payload: payload}}, 1+r.random.IntN(2+2*r.lives[id]))}
	if _, err := r.events.Journal().Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func (r *rebirths) forget(t *testing.T, id annals.PersistenceID) {
	t.Helper()
	if r.stop != nil && r.random.OneIn(2) {
		time.Sleep(time.Minute)
		r.wantWhole(t, id)
	}
	if err := r.events.Journal().DeleteTo(t.Context(), id, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	f := ability.Forgetting{ID: id}
	if !r.atOnce {
		f.Age = ability.ForgetAge
		time.Sleep(f.Age + time.Second)
	}
	if done, err := r.forgetter.Forget(t.Context(), f); !done || err != nil {
		t.Fatal(done, err)
	}
	r.lives[id]++
}

// wantWhole checks that the life of id that lasts was handled whole, each event once and in order.
func (r *rebirths) wantWhole(t *testing.T, id annals.PersistenceID) {
	t.Helper()
	last, err := r.events.Journal().LastSeqNr(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for life := range r.lives[id] {
		if got := r.handled[lifeOf(id, life)]; !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%s: handled %v", lifeOf(id, life), got)
		}
	}
	var want []annals.SeqNr
	for n := annals.SeqNr(1); n <= last; n++ {
		want = append(want, n)
	}
	if got := r.handled[lifeOf(id, r.lives[id])]; !slices.Equal(got, want) {
		t.Errorf("%s: handled %v of %v", lifeOf(id, r.lives[id]), got, want)
	}
}

// Entities that are forgotten and begin again are handled whole, whatever was handled of their earlier lives, and wherever the projection is
// stopped and goes on.
func TestRandomRebirths(t *testing.T) {
	t.Parallel()
	random.Each(t, 80, func(t *testing.T, random *random.Source) {
		synctest.Test(t, func(t *testing.T) { rebirth(t, random) })
	})
}

func rebirth(t *testing.T, random *random.Source) {
	t.Helper()
	r := newRebirths(t, random)
	ids := []annals.PersistenceID{"T|1", "T|2", "T|3"}[:1+random.IntN(3)]
	for range 40 {
		id := ids[random.IntN(len(ids))]
		switch n := random.IntN(11); {
		case n == 10:
			r.reset(t)
		case n < 3:
			r.append(t, id)
		case n < 5:
			r.forget(t, id)
		case n < 7:
			r.toggle(t)
		default:
			time.Sleep(time.Duration(random.ExpFloat64() * float64(2*time.Second)))
		}
	}
	if r.stop == nil {
		r.toggle(t)
	}
	time.Sleep(time.Minute)
	r.stop()
	for _, id := range ids {
		r.wantWhole(t, id)
	}
}
