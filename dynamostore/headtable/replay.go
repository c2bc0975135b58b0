package headtable

import (
	"context"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Replay is annals.Journal. It reads the head first, which says what numbers there are. So it also finds that the first or the last events are missing.
func (j *journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		h, err := j.head(ctx, id)
		if err == nil {
			err = j.replay(ctx, id, h, from, to, func(e annals.Event) bool { return yield(e, nil) })
		}
		if err != nil {
			yield(annals.Event{}, err)
		}
	}
}

// replay yields the events from … to that there are according to h. A number without an event is looked up in the head again: it may have been
// deleted meanwhile.
func (j *journal) replay(ctx context.Context, id annals.PersistenceID, h head, from, to annals.SeqNr, yield func(annals.Event) bool) error {
	aid, err := aidOf(id)
	if err != nil {
		return err
	}
	from, to = max(from, h.deleted+1), min(to, h.last)
	if from > to {
		return nil
	}
	next, begun := from, false
	for it, err := range j.x.Query(ctx, plan.Query{Table: j.table, Hash: aid, From: plan.N(from), To: plan.N(to), Dense: true}) {
		if err != nil {
			return err
		}
		e, err := eventOf(id, it)
		if err != nil {
			return corrupt(j.table, it, err, attrAID, attrSeq)
		}
		if e.SeqNr > next {
			if err := j.missing(ctx, id, next, e.SeqNr-1, begun); err != nil {
				return err
			}
		}
		begun = true
		if next = e.SeqNr + 1; !yield(e) {
			return nil
		}
	}
	if next <= to {
		return j.missing(ctx, id, next, to, begun)
	}
	return nil
}

// missing returns the error of a replay that has not found the events from … to: ErrTruncated when they have been deleted since the replay has
// begun to yield events, else ErrCorrupt. Before the first event that is yielded, deleted events may be missing.
func (j *journal) missing(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr, begun bool) error {
	h, err := j.head(ctx, id)
	switch {
	case err != nil:
		return err
	case h.deleted >= to && !begun:
		return nil
	case h.deleted >= to:
		return &annals.Error{Kind: annals.ErrTruncated}
	case j.gaps:
		return nil
	}
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q has no events %d to %d, and %d is the last number", j.table, from, to, h.last)}
}
