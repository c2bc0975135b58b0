package query

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
)

// StateFeed follows the durable states that fit a filter, tombstones included, from a position on, as a Feed follows events: each revision
// at most once, and those of one entity in the order of their revisions. Of an entity that changes often, revisions in between may be left
// out, the newest never. What is said of calls and contexts at Feed holds for a StateFeed.
type StateFeed struct {
	follower[annals.State]
}

// StateBatch is what StateFeed.Next returns. Its fields are as those of Batch.
type StateBatch struct {
	States   []annals.State
	Through  annals.Offset // of every entity whose newest state is at or before it, that state was handed over
	CaughtUp bool
}

// NewStateFeed returns a StateFeed of the states of f after the position from. Its parameters are those of NewFeed; a store without queries
// of states is ErrUnsupported. Without f.Type the states of the library are left out, as States does.
func NewStateFeed(s annals.Store, f annals.Filter, from annals.Position, o Options) (*StateFeed, error) {
	const op = "follow states"
	feed := &StateFeed{}
	if err := feed.init(op, s, f, from, o, claims.StateFeed); err != nil {
		return nil, err
	}
	feed.read, feed.offset = s.Query().States, annals.State.Offset
	feed.size = func(st annals.State) int { return len(st.Data) + len(st.Metadata.Data) }
	return feed, nil
}

// Next is as Feed.Next. With Options.Current it is io.EOF when the feed has read to the end once.
func (f *StateFeed) Next(ctx context.Context, max int) (StateBatch, error) {
	if max < 1 {
		max = 1
	}
	b, err := f.next(ctx, max)
	return StateBatch{b.items, b.through, b.caughtUp}, err
}
