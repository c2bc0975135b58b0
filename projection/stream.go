package projection

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/query"
)

// stream is what a projection follows: the events of a store, or its durable states. A state is handed over as an event with the revision as
// its number. The states of this package are left out.
type stream struct {
	store annals.Store
	source
}

// feed returns the function Next of a feed from a position on.
func (s stream) feed(from annals.Position, o query.Options) (next func(ctx context.Context, max int) (query.Batch[annals.Event], error), err error) {
	if !s.States {
		feed, err := query.NewFeed(s.store, s.filter(), from, o)
		if err != nil {
			return nil, err
		}
		return feed.Next, nil
	}
	feed, err := query.NewStateFeed(s.store, s.filter(), from, o)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, max int) (query.Batch[annals.Event], error) {
		b, err := feed.Next(ctx, max)
		batch := query.Batch[annals.Event]{Through: b.Through, CaughtUp: b.CaughtUp}
		for _, state := range b.Items {
			batch.Items = append(batch.Items, eventOf(state))
		}
		return batch, err
	}, nil
}

// read yields what the store shows of f.
func (s stream) read(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	if !s.States {
		return s.store.Query().Events(ctx, f)
	}
	return func(yield func(annals.Event, error) bool) {
		for state, err := range s.store.Query().States(ctx, f) {
			if (err != nil || !progress.Internal(state.ID)) && !yield(eventOf(state), err) {
				return
			}
		}
	}
}

// entity yields the events of id from the number from on, or its newest state.
func (s stream) entity(ctx context.Context, id annals.PersistenceID, from annals.SeqNr) iter.Seq2[annals.Event, error] {
	if !s.States {
		return s.store.Journal().Replay(ctx, id, from, annals.MaxSeqNr)
	}
	return func(yield func(annals.Event, error) bool) {
		state, _, err := s.store.States().Get(ctx, id)
		state.ID = id
		if err != nil || state.Revision >= from {
			yield(eventOf(state), err)
		}
	}
}

// end returns an offset that is not before any of what is visible now.
func (s stream) end(ctx context.Context) (annals.Offset, error) {
	if !s.States {
		return s.store.Query().Newest(ctx, s.filter())
	}
	watermark, err := s.store.Query().Watermark(ctx)
	if err != nil {
		return annals.Offset{}, err
	}
	f := s.filter()
	f.After, f.KeysOnly = annals.Offset{Time: watermark}, true
	for state, err := range s.store.Query().States(ctx, f) {
		if err != nil {
			return annals.Offset{}, err
		}
		f.After = state.Offset()
	}
	return f.After, nil
}

func eventOf(s annals.State) annals.Event {
	return annals.Event{ID: s.ID, SeqNr: s.Revision, Time: s.Time, Payload: s.Payload, Tags: s.Tags, Metadata: s.Metadata}
}

// deleted reports whether eventOf made e of a tombstone, which has no payload.
func deleted(e annals.Event) bool { return e.SerializerID == 0 }
