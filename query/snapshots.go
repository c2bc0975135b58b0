package query

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"maps"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
)

// Change is what EventsFromSnapshots yields: an event, or a snapshot in place of all events up to its number.
type Change struct {
	Snapshot *annals.Snapshot // nil: Event is one
	Event    annals.Event
}

// EventsFromSnapshots yields the newest snapshot of each entity that fits f, and then the events that fit f and are not in these
// snapshots: those that are there, then new ones as they come. Of an entity, a second snapshot with a higher number may come, and events
// always come after its snapshots. It ends as Events does, and f.After, f.Limit and f.Behind are as there. f.Tag is also about
// annals.Snapshot.Tags.
//
// The events are read from f.After on, since entities may have no snapshot: what is saved is the work on the events, not reading them. The
// numbers of the snapshots are remembered until the events have come as far. A store that does not claim Capabilities.SnapshotQueries is
// ErrUnsupported.
func EventsFromSnapshots(ctx context.Context, s annals.Store, f annals.Filter, o Options) iter.Seq2[Change, error] {
	from, limit := bounds(&f)
	return func(yield func(Change, error) bool) {
		feed, err := NewFeed(s, f, from, o)
		if err := cmp.Or(err, claims.Refusal("follow events from snapshots", s.Capabilities(), claims.SnapshotFeed)); err != nil {
			yield(Change{}, err)
			return
		}
		ctx, end := context.WithCancel(ctx) // ends the watch
		defer end()
		n, stopped := 0, false
		hand := func(c Change) bool {
			n++
			stopped = !yield(c, nil) || n == limit
			return !stopped
		}
		covered, err := newestSnapshots(ctx, feed, hand)
		for err == nil && !stopped {
			var b Batch[annals.Event]
			b, err = feed.Next(ctx, pageSize)
			for _, e := range b.Items {
				if !covered[e.ID].Covers(e.Offset()) && !hand(Change{Event: e}) {
					return
				}
			}
			maps.DeleteFunc(covered, func(_ annals.PersistenceID, o annals.Offset) bool { return o.Compare(b.Through) <= 0 })
		}
		if err != nil && !errors.Is(err, io.EOF) {
			yield(Change{}, err)
		}
	}
}

// newestSnapshots hands over the snapshots of the filter of f, until hand returns false. It returns the offset of the newest one of each entity.
func newestSnapshots(ctx context.Context, f *Feed[annals.Event], hand func(Change) bool) (map[annals.PersistenceID]annals.Offset, error) {
	newest := map[annals.PersistenceID]annals.Offset{}
	filter := f.filter
	filter.After = f.floor
	err := f.waker.repeat(ctx, func() error {
		for s, err := range f.store.Query().Snapshots(ctx, filter) {
			if err != nil {
				return err
			}
			filter.After = s.Offset()
			newest[s.ID] = s.Offset()
			if !hand(Change{Snapshot: &s}) {
				return nil
			}
		}
		return nil
	})
	return newest, err
}
