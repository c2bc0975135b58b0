package pgstore

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// complete is ErrCorrupt when a number is missing between two of the events, which came from one statement, and nothing tells
// that it was never used.
func (r *reader) complete(ctx context.Context, events []annals.Event) error {
	for i := 1; i < len(events); i++ {
		a, b := &events[i-1], &events[i]
		if b.SeqNr == a.SeqNr+1 || unused(a, b) {
			continue
		}
		if explained, err := r.explained(ctx, a.SeqNr, b.SeqNr); err != nil {
			return err
		} else if !explained {
			return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("event %d is followed by %d", a.SeqNr, b.SeqNr)}
		}
	}
	return nil
}

// unused reports whether the numbers between a and b were never used: where an event adapter on the JVM fails, the plugin stores
// nothing, and its writer goes on behind the number. So the gap is between two writes of one writer there. A commit of ours has a
// writer of its own, and one time.
func unused(a, b *annals.Event) bool {
	return a.WriteID == b.WriteID && (a.WriteID.IsZero() || !a.Time.Equal(b.Time))
}

// explained looks for what else the plugin does that leaves numbers unused: a delete beyond the last event puts a marker there, and
// the events that come with a durable state have its revisions as numbers, of which some have no event.
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
