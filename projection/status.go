package projection

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// maxLag is how many events Status counts at most, in all ranges together.
const maxLag = 10_000

// Status is what the store knows of a projection.
type Status struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // of the source; "" = all
	Tag    string `json:"tag"`  // of the source; "" = any
	Paused bool   `json:"paused"`
	// Ranges are the ranges of slices in their order.
	Ranges []RangeStatus `json:"ranges"`
	// Parked is the number of parked entities. Their events that wait are not part of the lag.
	Parked int `json:"parked"`
	// Lag is the number of events that have not been handled. When LagAtLeast is set, there are more: no more than about 10,000 are counted.
	Lag        int  `json:"lag"`
	LagAtLeast bool `json:"lagAtLeast,omitempty"`
	// LagTime is the age of the oldest event that has not been handled, by the clock of the caller; 0 when there is none.
	LagTime time.Duration `json:"lagTime"` // nanoseconds
	Newest  annals.Offset `json:"newest"`  // of the events of the source; zero = there are none
}

// RangeStatus is the part of a Status about one range of slices.
type RangeStatus struct {
	Slices  annals.SliceRange `json:"slices"`
	Runner  string            `json:"runner"` // the id of the Runner that handles the range, "" = none
	Epoch   int64             `json:"epoch"`
	Through annals.Offset     `json:"through"` // all events at or before it have been handled
	Lag     int               `json:"lag"`     // as Status.Lag, for this range
	LagTime time.Duration     `json:"lagTime"`

	lagAtLeast bool
}

// Status reads how far the projection has come, and counts in source, the store of the events, what is left to handle. It may be called
// from any process and changes nothing.
func (c *Control) Status(ctx context.Context, source annals.Store) (Status, error) {
	r, err := c.read(ctx, "read the status of")
	if err != nil {
		return Status{}, err
	}
	s := Status{Name: c.name, Type: r.Source.Type, Tag: r.Source.Tag, Paused: r.Paused}
	parked, err := c.parked(ctx)
	if err != nil {
		return Status{}, err
	}
	s.Parked = len(parked)
	filter := annals.Filter{Type: s.Type, Tag: s.Tag, KeysOnly: true}
	if s.Newest, err = source.Query().Newest(ctx, filter); err != nil {
		return Status{}, err
	}
	for _, l := range r.Ranges {
		status, err := c.rangeStatus(ctx, source, filter, l.slices(), max(maxLag/len(r.Ranges), 1))
		if err != nil {
			return Status{}, err
		}
		status.Runner, status.Epoch = l.Runner, l.Epoch
		s.Lag += status.Lag
		s.LagAtLeast = s.LagAtLeast || status.lagAtLeast
		s.LagTime = max(s.LagTime, status.LagTime)
		s.Ranges = append(s.Ranges, status)
	}
	return s, nil
}

// rangeStatus counts the events of f in r that have not been handled, up to most.
func (c *Control) rangeStatus(ctx context.Context, source annals.Store, f annals.Filter, r annals.SliceRange, most int) (RangeStatus, error) {
	s := RangeStatus{Slices: r}
	positions, err := c.store.Offsets().Load(ctx, c.name, r)
	if err != nil {
		return RangeStatus{}, err
	}
	var oldest time.Time
	for i, p := range positions {
		if i == 0 || p.Through.Compare(s.Through) < 0 {
			s.Through = p.Through
		}
		f.Slices, f.After, f.Limit = p.Slices, p.Through, most+1+len(p.Offsets)
		for e, err := range source.Query().Events(ctx, f) {
			if err != nil {
				return RangeStatus{}, err
			}
			if slices.ContainsFunc(p.Offsets, func(o annals.Offset) bool { return o.ID == e.ID && o.Covers(e.Offset()) }) {
				continue
			}
			if s.Lag == most {
				s.lagAtLeast = true
				break
			}
			s.Lag++
			if oldest.IsZero() || e.Time.Before(oldest) {
				oldest = e.Time
			}
		}
	}
	if !oldest.IsZero() {
		s.LagTime = max(time.Since(oldest), 0)
	}
	return s, nil
}
