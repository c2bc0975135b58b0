package dynamostore

import (
	"context"
	"iter"
	"sync"

	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// reading yields the pages of one query, or the one page of some keys, of which Last is not set. An error comes last.
type reading = iter.Seq2[plan.Page, error]

// received is a page that a goroutine has read, or the error that ends the reading.
type received struct {
	plan.Page
	err error
}

// readers run readings in goroutines. Each holds at most one page that the consumer has not received.
type readers struct {
	ctx     context.Context // of the readings: begin makes them with it
	cancel  context.CancelFunc
	running sync.WaitGroup
	done    chan struct{} // closed when the consumer has stopped. ctx does not serve for this: its end is an error that the consumer must get
}

func newReaders(ctx context.Context) *readers {
	r := &readers{done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// stop ends all readings and waits for their goroutines.
func (r *readers) stop() {
	close(r.done)
	r.cancel()
	r.running.Wait()
}

// start begins a reading. Its pages are sent to the channel, which is closed after the last one. When wanted is not nil, each page after the first
// is read when a value has been received from wanted.
func (r *readers) start(read reading, wanted <-chan struct{}) <-chan received {
	pages := make(chan received)
	r.running.Go(func() {
		defer close(pages)
		for p, err := range read {
			select {
			case pages <- received{p, err}:
			case <-r.done:
				return
			}
			if wanted == nil {
				continue
			}
			select {
			case <-wanted:
			case <-r.done:
				return
			}
		}
	})
	return pages
}

// inOrder yields the pages of the readings that begin makes, one reading after the other, each with its place. While the caller works on the
// pages of one reading, up to ahead more readings are under way; with ahead 0 a page is read when the caller asks for it. An error ends the
// sequence. begin makes the readings with the ctx that it is given, and ends when yield returns false.
func inOrder(ctx context.Context, ahead int, begin func(ctx context.Context, yield func(reading) bool)) reading {
	return func(yield func(plan.Page, error) bool) {
		place, going := 0, true
		next := func(p plan.Page, err error) bool {
			p.Query = place
			going = yield(p, err) && err == nil
			return going
		}
		if ahead <= 0 {
			begin(ctx, func(read reading) bool {
				read(next)
				place++
				return going
			})
			return
		}
		running := newReaders(ctx)
		defer running.stop()
		var open []<-chan received
		first := func() bool {
			for p := range open[0] {
				if !next(p.Page, p.err) {
					return false
				}
			}
			open = open[1:]
			place++
			return true
		}
		begin(running.ctx, func(read reading) bool {
			open = append(open, running.start(read, nil))
			return len(open) <= ahead || first()
		})
		for going && len(open) > 0 {
			first()
		}
	}
}

// itemsOf yields the items of pages.
func itemsOf(pages reading) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for p, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			if !give(p.Items, yield) {
				return
			}
		}
	}
}

// give yields items. It returns false when yield does.
func give(items []plan.Item, yield func(plan.Item, error) bool) bool {
	for _, it := range items {
		if !yield(it, nil) {
			return false
		}
	}
	return true
}

func (e *engine) Series(ctx context.Context, queries iter.Seq[plan.Query], ahead int) iter.Seq2[plan.Page, error] {
	return inOrder(ctx, ahead, func(ctx context.Context, yield func(reading) bool) {
		for q := range queries {
			if !yield(e.pages(ctx, q)) {
				return
			}
		}
	})
}
