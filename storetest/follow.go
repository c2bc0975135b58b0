package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/annals-go/annals"
)

var followCases = []testCase{
	{id: "FOLLOW-1", about: "a follower sees every event of concurrent writers exactly once", needs: needs(events, eventQueries, orderedFeed), run: func(h *harness) { h.followWriters(0) }},
	{id: "FOLLOW-2", about: "the same with Limit 10", needs: needs(events, eventQueries, orderedFeed), run: func(h *harness) { h.followWriters(10) }},
}

// followWriters writes many entities at the same time while a follower queries from its last offset, and compares what the follower saw with replays.
func (h *harness) followWriters(limit int) {
	const writers = 6
	rounds := h.volume(40, 10)
	var ids []annals.PersistenceID
	for range writers {
		ids = append(ids, h.id())
	}
	var working atomic.Int32
	working.Store(writers)
	errs := make([]error, writers+1)
	var seen []annals.Event
	together(writers+1, func(i int) {
		if i == writers {
			seen, errs[i] = h.follow(&working, limit)
			return
		}
		defer working.Add(-1)
		var after annals.SeqNr
		for round := range rounds {
			r, err := h.send(h.ctx, h.store, h.commit(ids[i], after, h.batch(1+(round+i)%3)))
			if err != nil {
				errs[i] = err
				return
			}
			after = r.SeqNr
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d writers and a follower: got error %v, want none", writers, err)
	}
	byID := map[annals.PersistenceID][]annals.Event{}
	for _, e := range seen {
		byID[e.ID] = append(byID[e.ID], e)
	}
	for _, id := range ids {
		h.wantEvents(fmt.Sprintf("what the follower saw of %q", id), byID[id], id, 1, h.last(id))
	}
}

// follow queries from its last offset until all writers have ended and nothing more is found.
func (h *harness) follow(working *atomic.Int32, limit int) (seen []annals.Event, err error) {
	f := annals.Filter{Type: "Thing", Limit: limit}
	for {
		done := working.Load() == 0
		page, err := collect(h.store.Query().Events(h.ctx, f))
		if err != nil {
			return seen, err
		}
		for _, e := range page {
			if e.Offset().Compare(f.After) <= 0 {
				return seen, fmt.Errorf("query events after %+v: got %+v, want a later one", f.After, e.Offset())
			}
			f.After = e.Offset()
		}
		seen = append(seen, page...)
		if done && len(page) == 0 {
			return seen, nil
		}
	}
}
