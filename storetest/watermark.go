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

// watermarkCases are about Query.Watermark and Capabilities.Lateness.
var watermarkCases = []testCase{
	{id: "WATERMARK-1", about: "the watermark is after all events and states, where these become visible in order", needs: needs(queries, orderedFeed), run: watermarkAfterAll},
	{id: "WATERMARK-2", about: "the watermark is at most Lateness before now, and not after", needs: needs(events, eventQueries), run: watermarkNearNow},
	{id: "WATERMARK-3", about: "no event appears before a watermark beside concurrent writers", needs: needs(events, eventQueries), run: eventsBeforeWatermarks},
	{id: "WATERMARK-4", about: "no state appears before a watermark beside concurrent writers", needs: needs(states, stateQueries), run: statesBeforeWatermarks},
}

// watermark asks for the watermark. The case ends when that fails.
func (h *harness) watermark() time.Time {
	h.Helper()
	at, err := h.store.Query().Watermark(h.ctx)
	if err != nil {
		h.Fatalf("query watermark: got error %v, want none", err)
	}
	if at.Location() != time.UTC || at != at.Truncate(time.Microsecond) {
		h.Errorf("query watermark: got %v, want microseconds in UTC", at)
	}
	return at
}

func watermarkAfterAll(h *harness) {
	h.watermark() // of an empty store
	for range 3 {
		id := h.id()
		if h.caps.EventQueries {
			r := h.append(h.commit(id, 0, 1))
			if at := h.watermark(); !at.After(r.Time) {
				h.Errorf("query watermark after an event at %v: got %v, want a later time", r.Time, at)
			}
		}
		if h.caps.StateQueries {
			r := h.put(id, 0)
			if at := h.watermark(); !at.After(r.Time) {
				h.Errorf("query watermark after a state at %v: got %v, want a later time", r.Time, at)
			}
		}
	}
}

// watermarkNearNow compares the watermark with the times of events before and after, which are those of the store's clock.
func watermarkNearNow(h *harness) {
	id := h.id()
	before := h.append(h.commit(id, 0, 1)).Time
	at := h.watermark()
	after := h.append(h.commit(id, 1, 1)).Time
	if least := before.Add(-h.caps.Lateness); at.Before(least) || at.After(after) {
		h.Errorf("query watermark between an event at %v and one at %v, with Lateness %v: got %v", before, after, h.caps.Lateness, at)
	}
}

// sighting is what a query found that began after Watermark had returned.
type sighting struct {
	watermark time.Time
	found     map[annals.Offset]bool
}

// watchWatermarks runs writers, each write of which writes several items, and queries meanwhile until several queries have found something before their watermarks, at most for two
// seconds. Then no later query may find anything before a watermark that the query after that watermark did not find.
func (h *harness) watchWatermarks(items int, write func(writer, round int) error, read func() ([]annals.Offset, error)) {
	const writers = 6
	rounds := make(chan int, h.volume(5, 2)*writers) // of writes, for any writer; the follower adds some before each query
	errs := make([]error, writers+1)
	ended := make(chan struct{}, 1) // a write
	var seen []sighting
	var written atomic.Int64
	together(writers+1, func(i int) {
		if i == writers {
			defer close(rounds)
			seen, errs[i] = h.sightings(rounds, ended, read)
			return
		}
		for round := range rounds {
			errs[i] = errors.Join(errs[i], write(i, round))
			written.Add(int64(items))
			select {
			case ended <- struct{}{}:
			default:
			}
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
			if o.Time.Before(s.watermark) && !s.found[o] {
				h.Errorf("query %d, which began after the watermark %v: %+v was not found, and appeared later", i+1, s.watermark, o)
				return
			}
		}
	}
}

// sightings queries until ten queries, or fewer with Config.Short, have found something before their watermarks. A write ends shortly before each.
func (h *harness) sightings(rounds chan<- int, ended <-chan struct{}, read func() ([]annals.Offset, error)) (seen []sighting, err error) {
	limit, cancel := context.WithTimeout(h.ctx, 2*time.Second)
	defer cancel()
	round := 0
	for told := 0; told < h.volume(10, 5) && limit.Err() == nil; {
		select {
		case <-ended: // long ago, perhaps
		default:
		}
		for len(rounds) < cap(rounds) {
			rounds <- round
			round++
		}
		<-ended
		at, err := h.store.Query().Watermark(h.ctx)
		if err != nil {
			return seen, err
		}
		offsets, err := read()
		if err != nil {
			return seen, err
		}
		s := sighting{watermark: at, found: map[annals.Offset]bool{}}
		before := 0
		for _, o := range offsets {
			if s.found[o] = true; o.Time.Before(at) {
				before++
			}
		}
		if before > 0 {
			told++
		} else {
			_ = backoff.Wait(h.ctx, 5) // the watermark is still before the first write
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

func eventsBeforeWatermarks(h *harness) {
	items := h.batch(2)
	h.watchWatermarks(items, func(writer, round int) error {
		_, err := h.send(h.ctx, h.store, h.commit(annals.NewPersistenceID("Thing", fmt.Sprintf("%d-%d", writer, round)), 0, items))
		return err
	}, func() ([]annals.Offset, error) {
		all, err := collect(h.store.Query().Events(h.ctx, annals.Filter{KeysOnly: true}))
		return offsetsOf(all, err, annals.Event.Offset)
	})
}

func statesBeforeWatermarks(h *harness) {
	h.watchWatermarks(1, func(writer, round int) error {
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
