// Package lost is for tests that take rows away from tables: what a store tells of an entity must then be as before, or an error.
package lost

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// States is the Get of an annals.StateStore; nil where there are no states.
type States func(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error)

// Read returns what a replay, LastSeqNr, a recovery and the state tell of id, as a text to compare. The first error ends it. How far the newest
// snapshot goes is not in the text.
func Read(ctx context.Context, j annals.Journal, states States, r ability.Recoverer, id annals.PersistenceID) (string, error) {
	state := ""
	if states != nil {
		st, _, err := states(ctx, id)
		if err != nil {
			return "", fmt.Errorf("state: %w", err)
		}
		state = fmt.Sprintf(", revision %d, %q", st.Revision, st.Data)
	}
	var replayed, recovered numbers
	for e, err := range j.Replay(ctx, id, 1, annals.MaxSeqNr) {
		if err != nil {
			return "", fmt.Errorf("replay: %w", err)
		}
		if replayed.first == 0 {
			replayed.last = e.SeqNr - 1
		}
		replayed.add(e.SeqNr)
	}
	last, err := j.LastSeqNr(ctx, id)
	if err != nil {
		return "", fmt.Errorf("last number: %w", err)
	}
	end, err := r.Recover(ctx, id, func(s annals.Snapshot) error {
		recovered = numbers{last: s.SeqNr}
		return nil
	}, func(e annals.Event) error {
		recovered.add(e.SeqNr)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("recovery: %w", err)
	}
	return fmt.Sprintf("replay %d to %d%s, last number %d, recovery to %d%s, last number %d%s", replayed.first, replayed.last, replayed.gaps, last, recovered.last, recovered.gaps, end, state), nil
}

// numbers are those of events, in order.
type numbers struct {
	first, last annals.SeqNr
	gaps        string
}

func (ns *numbers) add(n annals.SeqNr) {
	if n != ns.last+1 {
		ns.gaps += fmt.Sprintf(" without %d to %d", ns.last+1, n-1)
	}
	if ns.last = n; ns.first == 0 {
		ns.first = n
	}
}
