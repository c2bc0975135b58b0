package query

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/position"
	"github.com/annals-go/annals/internal/valid"
)

// Feed follows the events (T is annals.Event) or the durable states (annals.State) that fit a filter, from a position on: each once, and those of
// one entity in the order of their numbers. Only imported events of one entity whose NewEvent.Time goes back may come in the order of their
// times. Tombstones are states. Of an entity whose state changes often, revisions in between may be left out, the newest never.
//
// The methods of a Feed are called by one goroutine at a time. A Feed is not closed: nothing runs between two calls, and what watches the
// store ends with the ctx of the call of Next that began it. So give all calls a ctx that lives as long as the Feed.
type Feed[T any] struct {
	store    annals.Store
	filter   annals.Filter
	options  Options
	lateness time.Duration // of the store
	read     func(ctx context.Context, f annals.Filter) iter.Seq2[T, error]
	offset   func(T) annals.Offset
	size     func(T) int // in bytes, more or less
	// newest is where a query with Options.Current ends. nil is at the end of the first look.
	newest func(ctx context.Context, f annals.Filter) (annals.Offset, error)
	// missing returns what must be handed over before item, max at most, and whether that is all. It is nil where nothing can be missing.
	missing func(ctx context.Context, item T, max int) (items []T, all bool, err error)

	floor      annals.Offset // everything at or before it has been handed over
	head       annals.Offset // the newest that has been handed over
	watermark  time.Time     // of the last look from the floor
	handedOver handedOver
	waker      waker
	look       look[T]

	full     bool           // the last look ended because of Options.Window
	lookedAt time.Time      // when the last look from the floor ended
	end      *annals.Offset // where a query with Options.Current ends, when it is known
	ended    bool           // it has come there
	handed   time.Time      // when Next returned last
	through  annals.Offset  // what it returned
	caughtUp bool

	made    time.Time     // when the Feed was made
	begun   annals.Offset // the floor of the position
	audited time.Time     // when the last audit ended
	lowest  time.Time     // of the watermarks below the floor since the last audit began; zero: there was none
}

// Batch is what Feed.Next returns.
type Batch[T any] struct {
	// Items were not in an earlier Batch. Those of one entity are in the order of their numbers; those of different entities may be in
	// another order than that of their Offset.
	Items []T
	// Through says that every event of the filter at or before it is in this Batch or an earlier one, or was handled before the position;
	// of a feed of states, every entity's newest state at or before it. It never goes back. Only what becomes visible later than the
	// watermark of the store promises can come in a later Batch, at or before the Through of an earlier one: see Options.Audit.
	Through annals.Offset
	// CaughtUp says that nothing more was visible when the store was read: in the slices of the Feed, or after a signal of the store in those
	// in which it says that something was written.
	CaughtUp bool
}

// NewFeed returns a Feed of the events of f after the position from: after from.Through, and without those that from.Offsets cover. Its
// slices are those that are in f.Slices and in from.Slices: where neither is all slices, both must be of annals.SliceRanges or both of
// annals.SpreadRanges (ErrInvalid). It reads nothing yet. f.After, f.Limit and f.Behind must be zero (ErrInvalid);
// a store without event queries, or without queries by tag when f has one, is ErrUnsupported.
func NewFeed(s annals.Store, f annals.Filter, from annals.Position, o Options) (*Feed[annals.Event], error) {
	feed := &Feed[annals.Event]{}
	if err := feed.init("follow events", s, f, from, o, claims.EventFeed); err != nil {
		return nil, err
	}
	feed.read, feed.offset = s.Query().Events, annals.Event.Offset
	feed.size = func(e annals.Event) int { return len(e.Data) + len(e.Metadata.Data) }
	feed.newest, feed.missing = s.Query().Newest, missingEvents{feed}.before
	return feed, nil
}

// NewStateFeed returns a Feed of the states of f after the position from. Its parameters are those of NewFeed; a store without queries
// of states is ErrUnsupported. Without f.Type the states of the library are left out, as States does.
func NewStateFeed(s annals.Store, f annals.Filter, from annals.Position, o Options) (*Feed[annals.State], error) {
	feed := &Feed[annals.State]{}
	if err := feed.init("follow states", s, f, from, o, claims.StateFeed); err != nil {
		return nil, err
	}
	feed.read, feed.offset = s.Query().States, annals.State.Offset
	feed.size = func(st annals.State) int { return len(st.Data) + len(st.Metadata.Data) }
	return feed, nil
}

// init makes f a Feed of s from a position, which needs some features, or says what is wrong with that.
func (f *Feed[T]) init(op string, s annals.Store, filter annals.Filter, from annals.Position, o Options, needs ...claims.Feature) error {
	o, err := o.withDefaults(s)
	err = errors.Join(err, valid.FilterFault(filter), valid.FilterFault(annals.Filter{Slices: from.Slices}))
	if filter.After != (annals.Offset{}) || filter.Limit != 0 || filter.Behind != 0 {
		err = errors.Join(err, errors.New("After, Limit and Behind must be zero: a feed begins at a position and goes on"))
	}
	if err == nil {
		filter.Slices, err = intersect(filter.Slices, from.Slices)
	}
	if err != nil {
		return &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: err}
	}
	if filter.Tag != "" {
		needs = append(needs, claims.TagFeed)
	}
	if err := claims.Refusal(op, s.Capabilities(), needs...); err != nil {
		return err
	}
	f.store, f.filter, f.options, f.lateness = s, filter, o, s.Capabilities().Lateness
	f.floor, f.head, f.through = from.Through, from.Through, from.Through
	f.handedOver = newHandedOver(from, 2*max(o.Audit, 0), o.Window)
	f.made, f.begun = time.Now(), from.Through
	f.waker = newWaker(s, filter, o)
	return nil
}

// intersect returns the range that is in both.
func intersect(a, b annals.SliceRange) (annals.SliceRange, error) {
	if from, to := a.Bounds(); to-from == annals.SliceCount {
		return b, nil
	}
	if from, to := b.Bounds(); to-from == annals.SliceCount {
		return a, nil
	}
	both := annals.SliceRange{From: max(a.From, b.From), To: min(a.To, b.To)}
	switch {
	case position.Spread(a) != position.Spread(b):
		return both, errors.New("of the ranges " + a.String() + " and " + b.String() + " one is of SliceRanges, and one of SpreadRanges")
	case both.From >= both.To:
		return both, errors.New("no range is in both " + a.String() + " and " + b.String())
	}
	return both, nil
}
