package cleanup

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/progress"
)

// run calls each for all ids. One goroutine begins entities, each entity is processed by a goroutine of its own, and the caller's goroutine
// takes the results in the order of the ids, so that all ids before Report.Last have been processed.
func (c *Cleaner) run(ctx context.Context, op string, needs []claims.Feature, ids iter.Seq2[annals.PersistenceID, error],
	each func(ctx context.Context, w *work) error,
) (Report, error) {
	if err := claims.Refusal(op, c.caps, needs...); err != nil {
		return Report{}, &Error{Op: op, Err: err}
	}
	var (
		wg      sync.WaitGroup
		fed     error
		failure = Error{Op: op}
		report  = &failure.Report
		// The caller's goroutine waits for one result, the others are in this channel: together they are Concurrency.
		results      = make(chan chan Result, c.o.Concurrency-1)
		feeding, end = context.WithCancel(ctx)
	)
	wg.Go(func() {
		defer close(results)
		fed = panics.Contain(op, "", func() error { // ids may be code of the user
			return c.feed(feeding, ids, results, func(id annals.PersistenceID, result chan<- Result) {
				wg.Go(func() {
					w := work{Cleaner: c, Result: Result{ID: id}}
					if progress.Internal(id) {
						w.Err = &annals.Error{Op: op, ID: id, Kind: annals.ErrInvalid, Err: errors.New("the type is one of the library's own")}
					} else {
						w.Err = each(ctx, &w)
					}
					result <- w.Result
				})
			})
		})
	})
	finish := func() {
		end()
		for range results { // results that are not reported, so that feed ends
			continue
		}
		wg.Wait()
	}
	defer finish()

	for result := range results {
		done := <-result
		if done.Err != nil && ctx.Err() != nil {
			failure.Err = ctx.Err() // the entity is not done
			break
		}
		report.add(done)
		if done.Err != nil {
			failure.Failed = append(failure.Failed, done)
			if report.Failed == c.o.MaxFailures {
				failure.Err = ErrFailures
				end()
			}
		}
		if c.o.Progress != nil {
			c.o.Progress(done, *report)
		}
	}
	finish()
	if failure.Err == nil {
		failure.Err = fed
	}
	if err := ctx.Err(); err != nil && failure.Err != nil {
		failure.Err = &annals.Error{Op: op, Kind: annals.ErrUnavailable, Err: err}
	}
	if failure.Err != nil || len(failure.Failed) > 0 {
		return *report, &failure
	}
	return *report, nil
}

// feed begins one entity after another until the ids or ctx end.
func (c *Cleaner) feed(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error], results chan<- chan Result,
	begin func(id annals.PersistenceID, result chan<- Result),
) error {
	pace := pace{}
	if c.o.PerSecond > 0 {
		pace.every = time.Second / time.Duration(c.o.PerSecond)
	}
	for id, err := range ids {
		if err != nil {
			return err
		}
		if err := pace.wait(ctx); err != nil {
			return err
		}
		result := make(chan Result, 1)
		select {
		case results <- result:
		case <-ctx.Done():
			return ctx.Err()
		}
		begin(id, result)
	}
	return nil
}

// pace limits how many entities are begun in a second. The zero pace does not limit.
type pace struct {
	every time.Duration
	next  time.Time
}

func (p *pace) wait(ctx context.Context) error {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(p.every)
	return backoff.Sleep(ctx, wait)
}
