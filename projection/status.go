package projection

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// maxLag is how many events Status counts at most, in all ranges together.
const maxLag = 10_000

// Status is what the store knows of a projection.
type Status struct {
	Name   string `json:"name"`
	Type   string `json:"type"`             // of the source; "" = all
	Tag    string `json:"tag"`              // of the source; "" = any
	States bool   `json:"states,omitempty"` // of the source
	Paused bool   `json:"paused"`
	// Ranges are the ranges of slices in their order; none before the first run.
	Ranges []RangeStatus `json:"ranges"`
	// Parked is the number of parked entities. Their events that wait are not part of the lag.
	Parked int `json:"parked"`
	// Late is how many events have become visible after the projection had passed their time, since its first run, and LateAt when the last of them
	// was found, by the clock of its runner; zero: none. They were handled, or their entities are parked. An event may be counted twice when a
	// store fails meanwhile. Such events show that a promise of the store was broken: by a clock that was set back, or by a transaction that
	// was open for longer than Capabilities.Lateness.
	Late   int64     `json:"late,omitempty"`
	LateAt time.Time `json:"lateAt,omitzero"`
	// Lag is the number of events that have not been handled. When LagAtLeast is set, there are more: no more than about 10,000 are counted.
	Lag        int  `json:"lag"`
	LagAtLeast bool `json:"lagAtLeast,omitempty"`
	// LagTime is the age of the oldest event that has not been handled, by the clock of the caller; 0 when there is none.
	LagTime time.Duration `json:"lagTime"` // nanoseconds
	Newest  annals.Offset `json:"newest"`  // of the events of the source; zero = there are none, or the projection follows states
}

// RangeStatus is the part of a Status about one range of slices.
type RangeStatus struct {
	Slices  annals.SliceRange `json:"slices"`
	Runner  string            `json:"runner"` // the id of the Runner that handles the range, "" = none
	Epoch   int64             `json:"epoch"`
	Through annals.Offset     `json:"through"` // all events at or before it have been handled
	Lag     int               `json:"lag"`     // as Status.Lag, for this range
	LagTime time.Duration     `json:"lagTime"`
	// StuckSince is since when the range has not gone on although there is something to do, as the runner has said after 30 seconds; zero: it
	// goes on.
	StuckSince time.Time `json:"stuckSince,omitzero"`
	Hangs      bool      `json:"hangs,omitempty"`   // the handler does not return, and the range is free for other runners
	Repeats    int64     `json:"repeats,omitempty"` // steps that the runner has done again, because a store or a database did not take them
	Cause      string    `json:"cause,omitempty"`   // of the last of them: an SQLSTATE, or what Options.ErrorText makes of the error
	// Warning is what the store of the events has warned of in the last minute (annals.Result.Warning of Query.Watermark): a bound on which the
	// projection relies is near or does not hold. "": nothing.
	Warning string `json:"warning,omitempty"`

	lagAtLeast bool
}

// Status reads how far the projection has come, and counts in source, the store of the events, what is left to handle. It may be called
// from any process and changes nothing. Before the first run there are no Ranges; a Control of NewControl does not know then what the projection
// follows, and sets LagAtLeast in place of a count. A nil source does the same without a look at events: Lag, LagTime and Newest are zero then. The
// ErrCorrupt of a damaged record or position is returned.
func (c *Control) Status(ctx context.Context, source annals.Store) (Status, error) {
	r, err := c.read(ctx, "read the status of")
	if err != nil {
		return Status{}, err
	}
	return c.status(ctx, source, r)
}

// status is Status for the record r.
func (c *Control) status(ctx context.Context, source annals.Store, r record) (Status, error) {
	s := Status{Name: c.name, Type: r.Source.Type, Tag: r.Source.Tag, States: r.Source.States, Paused: r.Paused, Late: r.Late, LateAt: r.LateAt}
	for p, err := range c.parked(ctx, "") {
		if err != nil {
			return Status{}, err
		}
		s.Parked += len(p.entities)
	}
	begun := len(r.Ranges) > 0
	if !begun {
		if c.runner == nil {
			s.LagAtLeast = true
			return s, nil
		}
		r.Source = c.runner.stream.source
		s.Type, s.Tag, s.States = r.Source.Type, r.Source.Tag, r.Source.States
		r.Ranges = []lease{{To: annals.SliceCount}} // nothing is saved that has other numbers
	}
	from := stream{source, r.Source}
	if !s.States && source != nil {
		var err error
		if s.Newest, err = source.Query().Newest(ctx, from.filter()); err != nil {
			return Status{}, err
		}
	}
	ranges, err := c.ranges(ctx, from, r, max(maxLag/len(r.Ranges), 1))
	if err != nil {
		return Status{}, err
	}
	for _, x := range ranges {
		s.Lag += x.Lag
		s.LagAtLeast = s.LagAtLeast || x.lagAtLeast
		s.LagTime = max(s.LagTime, x.LagTime)
	}
	if begun {
		s.Ranges = ranges
	}
	return s, nil
}

// ranges returns the status of the ranges of r. It counts up to most events of each.
func (c *Control) ranges(ctx context.Context, from stream, r record, most int) (all []RangeStatus, err error) {
	positions, err := c.store.Offsets().Load(ctx, c.name, r.whole())
	if err != nil {
		return nil, err
	}
	for _, l := range r.Ranges {
		status, err := rangeStatus(ctx, from, l.slices(), positions, most, annals.Offset{})
		if err != nil {
			return nil, err
		}
		status.Runner, status.Epoch = l.Runner, l.Epoch
		t := r.trouble(l)
		status.StuckSince, status.Hangs, status.Repeats, status.Cause, status.Warning = t.Since, t.Hangs, t.Repeats, t.Cause, t.Warning
		all = append(all, status)
	}
	return all, nil
}

// rangeStatus counts the events of from in r that have not been handled, up to most, and not after until if that is not zero. positions are those
// of all slices.
func rangeStatus(ctx context.Context, from stream, r annals.SliceRange, positions []annals.Position, most int, until annals.Offset) (RangeStatus, error) {
	s := RangeStatus{Slices: r}
	f := from.filter()
	f.KeysOnly = true
	var oldest time.Time // of the events that have not been handled
	for _, p := range positions {
		first, end := p.Slices.Bounds()
		f.After, f.Slices = p.Through, annals.SliceRange{From: max(first, r.From), To: min(end, r.To)}
		if f.Slices.From >= f.Slices.To {
			continue
		}
		if f.Slices.From == r.From || p.Through.Compare(s.Through) < 0 {
			s.Through = p.Through
		}
		if from.store == nil {
			s.lagAtLeast = true
			continue
		}
		handled := newStart([]annals.Position{p}, annals.Offset{})
		for e, err := range from.read(ctx, f) {
			if err != nil {
				return RangeStatus{}, err
			}
			if until != (annals.Offset{}) && e.Offset().Compare(until) > 0 {
				break
			}
			if handled.covers(e.Offset()) {
				continue
			}
			if oldest.IsZero() || e.Time.Before(oldest) {
				oldest = e.Time
			}
			if s.Lag == most {
				s.lagAtLeast = true
				break
			}
			s.Lag++
		}
	}
	if !oldest.IsZero() {
		s.LagTime = max(time.Since(oldest), 0)
	}
	return s, nil
}
