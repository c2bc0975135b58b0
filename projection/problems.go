package projection

import (
	"fmt"
	"time"

	"github.com/annals-go/annals"
)

// Problem is something that an operator should know of a projection.
type Problem struct {
	// Code is one of these. Of the projection: "never-run", "paused", "parked", "late". Of a range: "nobody", "stuck", "hangs", "warning", and
	// "lags", which only a Health finds.
	Code   string
	Slices annals.SliceRange // the range; zero: the problem is one of the projection
	Text   string            // says it in words. What Options.ErrorText makes of an error can be a part of it
	Fault  bool              // something is to be done; false: it is good to know
}

// Problems judges s. That a range has no runner is normal for a moment while runners begin, end or are replaced. A Health waits for that moment, and
// also sees runners that were killed.
func (s Status) Problems() (all []Problem) {
	of := func(code string, slices annals.SliceRange, fault bool, format string, args ...any) {
		all = append(all, Problem{code, slices, fmt.Sprintf(format, args...), fault})
	}
	whole := annals.SliceRange{}
	if len(s.Ranges) == 0 {
		of("never-run", whole, true, "it has not been run in this store")
		return all
	}
	if s.Paused {
		of("paused", whole, false, "it is paused")
	}
	for _, r := range s.Ranges {
		switch {
		case r.Hangs:
			of("hangs", r.Slices, true, "the handler of slices %s does not return: look at the process", r.Slices)
		case !r.StuckSince.IsZero():
			of("stuck", r.Slices, true, "slices %s have not gone on since %s; steps repeated: %d, the last because of %s", r.Slices, r.StuckSince.UTC().Format(time.RFC3339Nano), r.Repeats, r.Cause)
		case r.Runner == "" && !s.Paused:
			of("nobody", r.Slices, true, "nobody handles slices %s: is a runner running?", r.Slices)
		}
		if r.Warning != "" {
			of("warning", r.Slices, true, "slices %s: %s", r.Slices, r.Warning)
		}
	}
	if s.Parked > 0 {
		of("parked", whole, true, "%d parked: their events wait", s.Parked)
	}
	if s.Late > 0 {
		of("late", whole, false, "events that became visible later than the store promises, and were handled: %d, the last at %s", s.Late, s.LateAt.UTC().Format(time.RFC3339Nano))
	}
	return all
}
