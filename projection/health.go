package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/quote"
)

// HealthOptions configure a Health. The zero HealthOptions suit most projections.
type HealthOptions struct {
	// MaxLag is the lag time (RangeStatus.LagTime) up to which a range is healthy, whatever becomes of it; 0: 1 minute.
	MaxLag time.Duration
	// Patience is how long a range may have no runner, or a lag time beyond MaxLag that becomes no shorter, before that is a failure; 0: 30 s. Runners
	// that replace others need up to Options.Lease.
	Patience time.Duration
	Logger   *slog.Logger // for what fails, once, and that it is mended; nil: slog.Default()
}

// Health finds out again and again whether a projection works, in whatever processes its runners are. It compares what it reads with what it has
// read before, so keep one for a projection for as long as the process runs. Its methods may be called from many goroutines at once.
//
// A range fails when no runner has it, or the one that has it shows no sign of life, as after a kill; when it does not go on, or its handler does not
// return (RangeStatus.StuckSince and Hangs); and when its lag time is beyond MaxLag and becomes no shorter, also because the projection is paused. A
// range that catches up is healthy. Parked entities are no failure: everything else goes on.
type Health struct {
	c      *Control
	source annals.Store
	o      HealthOptions

	mu    sync.Mutex
	watch watch
	free  map[annals.SliceRange]time.Time // since when a range has no runner
	lags  map[annals.SliceRange]lag       // of the ranges beyond MaxLag
	said  string                          // the problems that were logged last
}

// lag is the shortest lag time of a range since it is beyond HealthOptions.MaxLag.
type lag struct {
	time time.Duration
	at   time.Time
}

// NewHealth returns the Health of the projection of c, which follows the events in source. It reads nothing yet.
func NewHealth(c *Control, source annals.Store, o HealthOptions) *Health {
	o.MaxLag, o.Patience, o.Logger = cmp.Or(o.MaxLag, time.Minute), cmp.Or(o.Patience, 30*time.Second), panics.Logger(o.Logger)
	return &Health{c: c, source: source, o: o, free: map[annals.SliceRange]time.Time{}, lags: map[annals.SliceRange]lag{}}
}

// Unhealthy is the error of Health.Check for a projection that does not work.
type Unhealthy struct {
	Projection string
	Problems   []Problem // at least one; all of them are faults
}

// Error is the name of the projection and what is wrong.
func (u *Unhealthy) Error() string {
	texts := make([]string, len(u.Problems))
	for i, p := range u.Problems {
		texts[i] = p.Text
	}
	return fmt.Sprintf("annals: projection %s is not healthy: %s", quote.Text(u.Projection), strings.Join(texts, "; "))
}

// Check returns nil when the projection works, and an *Unhealthy when it does not. Another error is that of a store which could not be read. What takes time to be
// found out, as that a runner was killed, needs several checks: check every few seconds. A check needs a read of the projection's record, one of its
// positions, and for each range one of the first event that it has not handled.
func (h *Health) Check(ctx context.Context) error {
	r, from, err := h.read(ctx)
	if err != nil {
		return err
	}
	s := Status{Name: h.c.name, Paused: r.Paused}
	if s.Ranges, err = h.c.ranges(ctx, from, r, 1); err != nil {
		return err
	}
	problems := h.judge(ctx, r, &s)
	if len(problems) == 0 {
		return nil
	}
	return &Unhealthy{h.c.name, problems}
}

// Status is Control.Status, and counts as a check. The Runner of a range whose runner shows no sign of life is "".
func (h *Health) Status(ctx context.Context) (Status, error) {
	r, _, err := h.read(ctx)
	if err != nil {
		return Status{}, err
	}
	s, err := h.c.status(ctx, h.source, r)
	if err != nil {
		return Status{}, err
	}
	h.judge(ctx, r, &s)
	return s, nil
}

func (h *Health) read(ctx context.Context) (record, stream, error) {
	if h.source == nil {
		return record{}, stream{}, h.c.fault("check", annals.ErrInvalid, errors.New("the store of the events is missing"))
	}
	r, err := h.c.read(ctx, "check")
	return r, stream{h.source, r.Source}, err
}

// judge returns the problems of s, which was read with r, that fail the projection. It frees the ranges of runners without a sign of life.
func (h *Health) judge(ctx context.Context, r record, s *Status) (failing []Problem) {
	h.mu.Lock() // only now: a check whose store does not answer must not hold up others
	defer h.mu.Unlock()
	now := time.Now()
	dead := h.watch.Look(r.signs(), now)
	for i := range s.Ranges {
		if slices.Contains(dead, s.Ranges[i].Runner) {
			s.Ranges[i].Runner = ""
		}
	}
	free := map[annals.SliceRange]time.Time{}
	for _, p := range s.Problems() {
		switch p.Code {
		case "hangs", "stuck":
			failing = append(failing, p)
		case "nobody", "never-run":
			since, before := h.free[p.Slices]
			if !before {
				since = now
			}
			if free[p.Slices] = since; now.Sub(since) >= h.o.Patience {
				failing = append(failing, p)
			}
		}
	}
	h.free = free
	lags := map[annals.SliceRange]lag{}
	for _, x := range s.Ranges {
		if x.LagTime <= h.o.MaxLag {
			continue
		}
		shortest, before := h.lags[x.Slices]
		if !before || x.LagTime < shortest.time {
			shortest = lag{x.LagTime, now}
		}
		if lags[x.Slices] = shortest; now.Sub(shortest.at) >= h.o.Patience {
			text := fmt.Sprintf("slices %s are behind by %v, and do not catch up", x.Slices, x.LagTime.Round(time.Second))
			if s.Paused {
				text += ": the projection is paused"
			}
			failing = append(failing, Problem{"lags", x.Slices, text, true})
		}
	}
	h.lags = lags
	h.say(ctx, failing)
	return failing
}

// say logs the problems that fail the projection when they are others than before.
func (h *Health) say(ctx context.Context, failing []Problem) {
	codes, texts := "", []string{}
	for _, p := range failing {
		codes += p.Code + p.Slices.String() + " "
		texts = append(texts, p.Text)
	}
	if codes == h.said {
		return
	}
	if h.said = codes; codes == "" {
		h.o.Logger.InfoContext(ctx, "annals: a projection is healthy again", "projection", h.c.name)
		return
	}
	h.o.Logger.ErrorContext(ctx, "annals: a projection is not healthy", "projection", h.c.name, "problems", texts)
}
