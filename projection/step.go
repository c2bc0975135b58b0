package projection

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
)

// step is what one transaction does, or what is between two saves.
type step struct {
	events   []annals.Event // to be handled
	progress annals.Progress
	// also, if it is not nil, writes in the same transaction as the handler, or after it. handled says how many of events were handled. The
	// offsets of events are then not in progress.
	also   func(ctx context.Context, in annals.Store, handled int) error
	past   *past      // says which of events are rebuilt
	health *condition // of the range. Runner.deliver sets it.
}

// newStep returns the step that handles events and takes p on by them and by passed, the events that are not handled.
func newStep(p annals.Progress, events []annals.Event, passed []annals.Offset, through annals.Offset) step {
	p.Through = through
	p.Offsets = slices.Grow(slices.Clone(passed), len(events))
	for _, e := range events {
		p.Offsets = append(p.Offsets, e.Offset())
	}
	return step{events: events, progress: p}
}

// first returns the part of s up to its first n events.
func (s step) first(n int) step {
	if s.also != nil {
		s.events = s.events[:n]
		return s
	}
	passed := len(s.progress.Offsets) - len(s.events)
	s.progress.Through, s.progress.Offsets, s.events = annals.Offset{}, s.progress.Offsets[:passed+n], s.events[:n]
	return s
}
