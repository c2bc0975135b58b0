package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// horizonCases are about Query.Horizon and Capabilities.Lateness.
var horizonCases = []testCase{
	{id: "HORIZON-1", about: "the horizon is after all events and states, where these become visible in order", needs: needs(orderedFeed), run: horizonAfterAll},
	{id: "HORIZON-2", about: "the horizon is at most Lateness before now, and not after", needs: needs(events, eventQueries), run: horizonNearNow},
	{id: "HORIZON-3", about: "no event appears before a horizon beside concurrent writers", needs: needs(events, eventQueries), run: eventsBeforeHorizons},
	{id: "HORIZON-4", about: "no state appears before a horizon beside concurrent writers", needs: needs(states, stateQueries), run: statesBeforeHorizons},
}

// horizon asks for the horizon. The case ends when that fails.
func (h *harness) horizon() time.Time {
	h.Helper()
	at, err := h.store.Query().Horizon(h.ctx)
	if err != nil {
		h.Fatalf("query horizon: got error %v, want none", err)
	}
	if at.Location() != time.UTC || at != at.Truncate(time.Microsecond) {
		h.Errorf("query horizon: got %v, want microseconds in UTC", at)
	}
	return at
}

func horizonAfterAll(h *harness) {
	if !h.caps.EventQueries && !h.caps.StateQueries {
		return
	}
	h.horizon() // of an empty store
	for range 3 {
		id := h.id()
		if h.caps.EventQueries {
			r := h.append(h.commit(id, 0, 1))
			if at := h.horizon(); !at.After(r.Time) {
				h.Errorf("query horizon after an event at %v: got %v, want a later time", r.Time, at)
			}
		}
		if h.caps.StateQueries {
			r := h.put(id, 0)
			if at := h.horizon(); !at.After(r.Time) {
				h.Errorf("query horizon after a state at %v: got %v, want a later time", r.Time, at)
			}
		}
	}
}

// horizonNearNow compares the horizon with the times of events before and after, which are those of the store's clock.
func horizonNearNow(h *harness) {
	id := h.id()
	before := h.append(h.commit(id, 0, 1)).Time
	at := h.horizon()
	after := h.append(h.commit(id, 1, 1)).Time
	if least := before.Add(-h.caps.Lateness); at.Before(least) || at.After(after) {
		h.Errorf("query horizon between an event at %v and one at %v, with Lateness %v: got %v", before, after, h.caps.Lateness, at)
	}
}

// sighting is what a query found that began after Horizon had returned.
type sighting struct {
	horizon time.Time
	found   map[annals.Offset]bool
}

// watchHorizons runs writers, each write of which writes several items, and queries meanwhile until several queries have found something before their horizons, at most for two
// seconds. Then no later query may find anything before a horizon that the query after that horizon did not find.
func (h *harness) watchHorizons(items int, write func(writer, round int) error, read func() ([]annals.Offset, error)) {
	const writers = 6
	rounds := make(chan int, h.volume(5, 2)*writers) // of writes, for any writer; the follower adds some before each query
	errs := make([]error, writers+1)
	var seen []sighting
	var written atomic.Int64
	together(writers+1, func(i int) {
		if i == writers {
			defer close(rounds)
			seen, errs[i] = h.sightings(rounds, read)
			return
		}
		for round := range rounds {
			errs[i] = errors.Join(errs[i], write(i, round))
			written.Add(int64(items))
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d writers and a follower: got error %v, want none", writers, err)
	}
	all, err := read()
	for deadline := time.Now().Add(5 * time.Second); err == nil && len(all) < int(written.Load()) && time.Now().Before(deadline); runtime.Gosched() {
		all, err = read()
	}
	if err != nil || len(all) != int(written.Load()) {
		h.Fatalf("the last query: got %d items, error %v, want %d", len(all), err, written.Load())
	}
	for i, s := range seen {
		for _, o := range all {
			if o.Time.Before(s.horizon) && !s.found[o] {
				h.Errorf("query %d, which began after the horizon %v: %+v was not found, and appeared later", i+1, s.horizon, o)
				return
			}
		}
	}
}

// sightings queries until ten queries, or fewer with Config.Short, have found something before their horizons.
func (h *harness) sightings(rounds chan<- int, read func() ([]annals.Offset, error)) (seen []sighting, err error) {
	limit, cancel := context.WithTimeout(h.ctx, 2*time.Second)
	defer cancel()
	round := 0
	for told := 0; told < h.volume(10, 5) && limit.Err() == nil; {
		for len(rounds) < cap(rounds) {
			rounds <- round
			round++
		}
		at, err := h.store.Query().Horizon(h.ctx)
		if err != nil {
			return seen, err
		}
		offsets, err := read()
		if err != nil {
			return seen, err
		}
		s := sighting{horizon: at, found: map[annals.Offset]bool{}}
		before := 0
		for _, o := range offsets {
			if s.found[o] = true; o.Time.Before(at) {
				before++
			}
		}
		if before > 0 {
			told++
		} else {
			_ = backoff.Wait(h.ctx, 5) // the horizon is still before the first write
		}
		seen = append(seen, s)
	}
	return seen, nil
}

func offsetsOf[T any](all []T, err error, offset func(T) annals.Offset) (offsets []annals.Offset, _ error) {
	for _, v := range all {
		o := offset(v)
		o.Time = o.Time.UTC() // so that == compares it
		offsets = append(offsets, o)
	}
	return offsets, err
}

func eventsBeforeHorizons(h *harness) {
	items := h.batch(2)
	h.watchHorizons(items, func(writer, round int) error {
		_, err := h.send(h.ctx, h.store, h.commit(annals.NewPersistenceID("Thing", fmt.Sprintf("%d-%d", writer, round)), 0, items))
		return err
	}, func() ([]annals.Offset, error) {
		all, err := collect(h.store.Query().Events(h.ctx, annals.Filter{KeysOnly: true}))
		return offsetsOf(all, err, annals.Event.Offset)
	})
}

func statesBeforeHorizons(h *harness) {
	h.watchHorizons(1, func(writer, round int) error {
		w := stateWrite(annals.NewPersistenceID("Thing", fmt.Sprintf("%d-%d", writer, round)), 0)
		return h.retried(func() error {
			_, err := h.store.States().Put(h.ctx, w)
			return err
		})
	}, func() ([]annals.Offset, error) {
		all, err := collect(h.store.Query().States(h.ctx, annals.Filter{KeysOnly: true}))
		return offsetsOf(all, err, annals.State.Offset)
	})
}
