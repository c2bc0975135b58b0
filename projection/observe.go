package projection

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/panics"
)

// The operations of a Runner as in annals.Call, beside the verdicts. None of them is an operation of a store or of a host.
const (
	opHandle  = "handle"  // handles a batch and saves how far the projection has come
	opStuck   = "stuck"   // nothing: a range has not gone on
	opLate    = "late"    // nothing: events have become visible too late
	opWarning = "warning" // nothing: what the projection relies on may not hold
	opTake    = "take"    // nothing: the Runner has a range from now on
	opRelease = "release" // nothing: the Runner has a range no more
	opLose    = "lose"    // nothing: another Runner has taken over a range, or it was set back
)

// observed is d, of which the Observer is told.
func (r *Runner) observed(d deliver) deliver {
	if r.o.Observer == nil {
		return d
	}
	return func(ctx context.Context, s step) (done int, err error) {
		c := annals.Call{Op: opHandle, Store: r.observedAs(), Events: len(s.events)}
		began := time.Now()
		ctx = r.o.Observer.Start(contexts.WithBatch(ctx, s.events), c)
		err = panics.Error(opHandle, "", nil) // when the handler ends the goroutine
		defer func() {
			x := annals.Result{Duration: time.Since(began), Events: done, Err: err}
			if done > 0 {
				x.Lag = max(time.Since(s.events[done-1].Time), 0)
			}
			r.o.Observer.End(ctx, c, x)
		}()
		return d(ctx, s)
	}
}

// tell tells the Observer of something that takes no time.
func (r *Runner) tell(ctx context.Context, c annals.Call, x annals.Result) {
	if o := r.o.Observer; o != nil {
		c.Store = r.observedAs()
		o.End(o.Start(ctx, c), c, x)
	}
}

func (r *Runner) observedAs() string { return "projection/" + r.name }
