package query

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// States yields the durable states that fit f, tombstones included: those that are there, then each one that changes. Of an entity that
// changes often, states in between may be left out, the newest never. It ends as Events does, and f.After, f.Limit and f.Behind are as
// there. With Options.Current it ends when it has read to the end once.
func States(ctx context.Context, s annals.Store, f annals.Filter, o Options) iter.Seq2[annals.State, error] {
	const op = "follow states"
	return func(yield func(annals.State, error) bool) {
		from, limit, err := begin(op, &f)
		if err == nil && !s.Capabilities().StateQueries {
			err = &annals.Error{Op: op, Kind: annals.ErrUnsupported}
		}
		var states follower[annals.State]
		if err == nil {
			err = states.init(op, s, f, from, o)
		}
		if err != nil {
			yield(annals.State{}, err)
			return
		}
		states.read, states.offset = s.Query().States, annals.State.Offset
		states.size = func(st annals.State) int { return len(st.Data) + len(st.Metadata.Data) }
		states.each(ctx, limit, yield)
	}
}
