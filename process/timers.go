package process

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/annals-go/annals/internal/calendar"
)

// again is after how long a timer is fired again whose instance could not be read or written.
const again = 10 * time.Second

// fire hands timers that are due to their instances. A timer that is not set any more has no effect there. One whose instance cannot be read
// or written is fired again later, so that it does not hold up the others.
func (r *Runner[E, S]) fire(ctx context.Context, due []calendar.Timer) error {
	q := queues[calendar.Timer]{}
	for _, t := range due {
		q.add(t.ID.EntityID(), t)
	}
	var later []calendar.Timer
	err := q.run(r.o.Parallel*cmp.Or(r.o.Ranges, 4), func(id string, t calendar.Timer) error {
		return r.hand(ctx, addressed{id, timerTurn(t.Name, micros(t.Due))})
	}, func(ts []calendar.Timer, err error) []calendar.Timer {
		if ctx.Err() != nil {
			return nil
		}
		for _, t := range ts {
			r.o.Logger.LogAttrs(ctx, slog.LevelError, "annals: a timer is fired again later", slog.String("process", r.p.Type),
				slog.String("instance", t.ID.EntityID()), slog.String("timer", t.Name), slog.Any("error", err))
			t.Due = time.Now().Add(again)
			later = append(later, t)
		}
		return nil
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return r.calendar.Add(ctx, later)
}
