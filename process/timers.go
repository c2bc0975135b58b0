package process

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
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
	var mu sync.Mutex
	var later []calendar.Timer
	err := q.run(ctx, r.o.Parallel*cmp.Or(r.o.Ranges, 4), func(ctx context.Context, id string, ts []calendar.Timer) error {
		for _, t := range ts {
			err := r.hand(ctx, addressed{id, timerTurn(t.Name, micros(t.Due))})
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return err
			default:
				r.o.Logger.LogAttrs(ctx, slog.LevelError, "annals: a timer is fired again later", slog.String("process", r.p.Type),
					slog.String("instance", id), slog.String("timer", t.Name), slog.Any("error", err))
				mu.Lock()
				t.Due = time.Now().Add(again)
				later = append(later, t)
				mu.Unlock()
			}
		}
		return nil
	})
	if err != nil || len(later) == 0 {
		return err
	}
	return r.calendar.Add(ctx, later)
}
