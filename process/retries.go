package process

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/projection"
)

const (
	retryEvery   = time.Second // while something is parked by this Runner
	retryOthers  = time.Minute // looks for what runners that have ended have parked
	longestRetry = time.Minute
)

// retries orders again and again that what is parked is handled, until ctx ends.
func (r *Runner[E, S]) retries(ctx context.Context) error {
	planned := map[*projection.Control]map[annals.PersistenceID]retry{}
	controls := append(r.Inputs(), r.Control())
	for looked := time.Now(); backoff.Sleep(ctx, retryEvery) == nil; {
		if !r.parked.Swap(false) && time.Since(looked) < retryOthers {
			continue
		}
		looked = time.Now()
		for _, c := range controls {
			plan, err := plan(ctx, c, planned[c])
			if planned[c] = plan; len(plan) > 0 || err != nil {
				r.parked.Store(true)
			}
			if err != nil && ctx.Err() == nil {
				r.o.Logger.LogAttrs(ctx, slog.LevelWarn, "annals: what is parked could not be retried", slog.String("process", r.p.Type), slog.Any("error", err))
			}
		}
	}
	return nil
}

// retry says when a parked entity is retried.
type retry struct {
	tries int
	at    time.Time
}

// plan orders the retries that are due, and returns when the others are.
func plan(ctx context.Context, c *projection.Control, before map[annals.PersistenceID]retry) (map[annals.PersistenceID]retry, error) {
	now, next := time.Now(), map[annals.PersistenceID]retry{}
	var due []annals.PersistenceID
	for p, err := range c.Parked(ctx, "") {
		if err != nil {
			return before, err
		}
		x, known := before[p.ID]
		if !known || x.tries != p.Tries {
			// Those that have failed together are not retried together: the first one of them could let the others fail again and again.
			d := min(retryEvery<<min(p.Tries, 10), longestRetry)
			x = retry{p.Tries, now.Add(d*3/4 + rand.N(d/2))}
		}
		if next[p.ID] = x; !p.Retry && p.LateTo == 0 && !now.Before(x.at) {
			due = append(due, p.ID)
		}
	}
	if len(due) == 0 {
		return next, nil
	}
	return next, c.Retry(ctx, due...)
}

// park is what happens to a step that could not be carried out. Everything else goes on, and retries looks after it.
func (r *Runner[E, S]) park(context.Context, projection.Failure) projection.Verdict {
	r.parked.Store(true)
	return projection.Park
}

// parkInput is what happens to an event that could not be handed over. The store is asked again at first, because the other events of the
// entity, for other instances, wait, too.
func (r *Runner[E, S]) parkInput(ctx context.Context, f projection.Failure) projection.Verdict {
	if f.Try < 10 && (errors.Is(f.Err, annals.ErrUnavailable) || errors.Is(f.Err, annals.ErrUnknown) || errors.Is(f.Err, annals.ErrConflict)) {
		return projection.Retry
	}
	return r.park(ctx, f)
}
