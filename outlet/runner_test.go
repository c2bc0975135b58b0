package outlet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/outlet"
	"github.com/annals-go/annals/projection"
)

// write appends the events 1 … n of each of so many entities.
func write(t *testing.T, s annals.Store, entities int, n annals.SeqNr) {
	t.Helper()
	for after := range n {
		for i := range entities {
			id := annals.NewPersistenceID("Order", fmt.Sprint(i))
			if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: placed.Payload}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// runner publishes the events of s to the topic "orders".
func runner(t *testing.T, s annals.Store, b *broker, o projection.Options) *projection.Runner {
	t.Helper()
	publish, err := outlet.Handler(b, func(projection.Envelope[annals.Payload]) string { return "orders" }, outlet.Options[annals.Payload]{})
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	r, err := projection.AtLeastOnceGrouped("orders", projection.Source[annals.Payload]{Store: s, Type: "Order", Codec: outlet.AsStored}, s, publish, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// complete demands that the broker has the events 1 … n of each entity in order, where each repeat has the UUID of the first message.
func (b *broker) complete(t *testing.T, entities int, n annals.SeqNr) (repeats int) {
	t.Helper()
	last, ids := map[annals.PersistenceID]annals.SeqNr{}, map[string]annals.Offset{}
	for _, m := range b.messages["orders"] {
		e, err := outlet.Event(m)
		if err != nil {
			t.Fatal(err)
		}
		if first, again := ids[m.UUID]; again {
			repeats++
			if first != e.Offset() {
				t.Errorf("%v and %v have one UUID", first, e.Offset())
			}
			continue
		}
		ids[m.UUID] = e.Offset()
		if e.SeqNr != last[e.ID]+1 {
			t.Errorf("event %d of %s was published after %d", e.SeqNr, e.ID, last[e.ID])
		}
		last[e.ID] = e.SeqNr
	}
	if len(last) != entities {
		t.Errorf("published events of %d entities, want %d", len(last), entities)
	}
	for id, got := range last {
		if got != n {
			t.Errorf("%s: published up to %d, want %d", id, got, n)
		}
	}
	return repeats
}

// A broker that fails now and then, also in the middle of a group, gets every event, in order.
func TestBrokerFailsNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := memstore.New(), 0
		write(t, s, 20, 10)
		b := &broker{fail: func(*message.Message) error {
			if calls++; calls%7 == 0 {
				return errors.New("broker is down")
			}
			return nil
		}}
		if err := runner(t, s, b, projection.Options{BatchSize: 16}).CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if repeats := b.complete(t, 20, 10); repeats == 0 {
			t.Error("no group failed in the middle")
		}
	})
}

// Durable states are published: the newest of each entity, and one that was deleted without a payload.
func TestPublishesStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, b := memstore.New(), &broker{}
		publish, err := outlet.Handler(b, func(projection.Envelope[annals.Payload]) string { return "orders" }, outlet.Options[annals.Payload]{})
		if err != nil {
			t.Fatal(err)
		}
		source := projection.Source[annals.Payload]{Store: s, Type: "Order", Codec: outlet.AsStored, States: true}
		r, err := projection.AtLeastOnceGrouped("orders", source, s, publish, projection.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := annals.StateWrite{ID: "Order|1", Payload: placed.Payload}
		for w.After = range annals.SeqNr(2) {
			if _, err := s.States().Put(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := r.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			if w.After++; w.After == 2 {
				if _, err := s.States().Delete(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := len(b.messages["orders"]); n != 2 {
			t.Fatalf("%d messages, want 2", n)
		}
		for i, want := range []annals.Payload{placed.Payload, {}} {
			e, err := outlet.Event(b.messages["orders"][i])
			if err != nil || e.SeqNr != annals.SeqNr(i+2) || e.SerializerID != want.SerializerID || string(e.Data) != string(want.Data) {
				t.Errorf("message %d: %+v, error %v", i, e, err)
			}
		}
	})
}

// A process that ends between publishing and saving publishes again what it has not saved, with the same UUIDs.
func TestCrashBeforeSave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, 4, 5)
		b := &broker{}
		publish, err := outlet.Handler(b, func(projection.Envelope[annals.Payload]) string { return "orders" }, outlet.Options[annals.Payload]{})
		if err != nil {
			t.Fatal(err)
		}
		var group []projection.Envelope[annals.Payload]
		for e, err := range s.Query().Events(t.Context(), annals.Filter{Type: "Order", Limit: 6}) {
			if err != nil {
				t.Fatal(err)
			}
			group = append(group, projection.Envelope[annals.Payload]{Event: e, Value: e.Payload})
		}
		if err := publish(t.Context(), group); err != nil { // and no position is saved
			t.Fatal(err)
		}
		if err := runner(t, s, b, projection.Options{}).CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if repeats := b.complete(t, 4, 5); repeats != 6 {
			t.Errorf("%d repeats, want 6", repeats)
		}
	})
}

// A message that the broker refuses is parked with the later events of its entity; the others are published.
func TestRefusedMessageIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, 3, 4)
		var refuses atomic.Bool
		refuses.Store(true)
		b := &broker{fail: func(m *message.Message) error {
			if refuses.Load() && m.Metadata.Get("persistence_id") == "Order|1" && m.Metadata.Get("sequence_number") == "2" {
				return errors.New("too large")
			}
			return nil
		}}
		seen := &observer{published: map[string]int{}}
		r := runner(t, s, b, projection.Options{Observer: seen, OnError: func(context.Context, projection.Failure) projection.Verdict { return projection.Park }})
		if err := r.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := b.published(t, "orders")
		for _, want := range []string{"Order|0 4", "Order|1 1", "Order|2 4"} {
			if !slices.Contains(got, want) {
				t.Errorf("not published: %s", want)
			}
		}
		for _, parked := range []string{"Order|1 2", "Order|1 3", "Order|1 4"} {
			if slices.Contains(got, parked) {
				t.Errorf("published although parked: %s", parked)
			}
		}
		if want := map[string]int{"take": 4, "handle": 9, "park": 1, "release": 4}; !maps.Equal(seen.published, want) {
			t.Errorf("the observer has seen %v, want %v", seen.published, want)
		}
		refuses.Store(false)
		if err := r.Control().Retry(t.Context(), "Order|1"); err != nil {
			t.Fatal(err)
		}
		if err := r.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.complete(t, 3, 4)
	})
}

// observer counts events by what was done with them.
type observer struct {
	mu        sync.Mutex
	published map[string]int
}

func (*observer) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (o *observer) End(_ context.Context, c annals.Call, r annals.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Op == "handle" {
		o.published[c.Op] += r.Events
	} else {
		o.published[c.Op]++
	}
}
