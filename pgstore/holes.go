package pgstore

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// complete returns ErrCorrupt when a number is missing between two of the events, or between the last event that was read of the same
// statement and these, unless the plugin left the number unused.
func (r *reader) complete(ctx context.Context, events []annals.Event) error {
	if len(events) == 0 {
		return nil
	}
	a := &r.last
	if a.SeqNr == 0 {
		a, events = &events[0], events[1:]
	}
	if n := len(events); n == 0 || events[n-1].SeqNr-a.SeqNr == annals.SeqNr(n) {
		return nil
	}
	for i := range events {
		b := &events[i]
		if b.SeqNr != a.SeqNr+1 && !unused(a, b) {
			if explained, err := r.explained(ctx, a.SeqNr, b.SeqNr); err != nil {
				return err
			} else if !explained {
				return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("event %d is followed by %d", a.SeqNr, b.SeqNr)}
			}
		}
		a = b
	}
	return nil
}

// unused reports whether the numbers between a and b look unused. Where an event adapter on the JVM fails, the plugin stores nothing
// and the same writer continues after the number, so such a gap is between two writes of one writer. Each commit of this package has
// a writer of its own, and its events share one time unless they were imported with times.
func unused(a, b *annals.Event) bool {
	return a.WriteID == b.WriteID && (a.WriteID.IsZero() || !a.Time.Equal(b.Time))
}

// explained reports whether the plugin left the numbers between a and b unused in another way: a delete beyond the last event leaves a
// marker there, and events that belong to a durable state are numbered by its revisions, some of which have no event.
func (r *reader) explained(ctx context.Context, a, b annals.SeqNr) (marker bool, err error) {
	if r.sparse {
		return true, nil
	}
	driver.Count(ctx, annals.Result{Requests: 1})
	err = r.reader().QueryRow(ctx, r.s.fill(`
		SELECT EXISTS (SELECT FROM {journal} WHERE persistence_id = $1 AND seq_nr > $2 AND seq_nr < $3 AND deleted),
			EXISTS (SELECT FROM {state} WHERE persistence_id = $1)`, "{state}", r.s.stateTable(r.id).name),
		string(r.id), int64(a), int64(b)).Scan(&marker, &r.sparse)
	return marker || r.sparse, err
}
