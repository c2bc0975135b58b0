package dynamostore

import (
	"context"
	"iter"
	"sync"

	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// page is a part of what is read, or the error that ends the reading.
type page struct {
	items []plan.Item
	last  bool // no page follows
	err   error
}

// reading reads pages from the service; an error is its last page.
type reading func(ctx context.Context) iter.Seq[page]

// readers run readings in goroutines. Each holds at most one page that the consumer has not received.
type readers struct {
	ctx     context.Context // of the replay
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
func (r *readers) start(read reading, wanted <-chan struct{}) <-chan page {
	pages := make(chan page)
	r.running.Go(func() {
		defer close(pages)
		for p := range read(r.ctx) {
			select {
			case pages <- p:
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

// inOrder yields the pages of readings, one reading after the other, each with its place. While the caller works on the pages of one
// reading, up to ahead more readings are under way; with ahead 0 a page is read when the caller asks for it. An error ends the sequence.
func inOrder(ctx context.Context, readings iter.Seq[reading], ahead int) iter.Seq2[int, page] {
	return func(yield func(int, page) bool) {
		place := 0
		if ahead <= 0 {
			for read := range readings {
				for p := range read(ctx) {
					if !yield(place, p) || p.err != nil {
						return
					}
				}
				place++
			}
			return
		}
		running := newReaders(ctx)
		defer running.stop()
		var open []<-chan page
		first := func() bool {
			for p := range open[0] {
				if !yield(place, p) || p.err != nil {
					return false
				}
			}
			open = open[1:]
			place++
			return true
		}
		for read := range readings {
			if open = append(open, running.start(read, nil)); len(open) > ahead && !first() {
				return
			}
		}
		for len(open) > 0 {
			if !first() {
				return
			}
		}
	}
}

// itemsOf yields the items of pages.
func itemsOf(pages iter.Seq2[int, page]) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for _, p := range pages {
			if p.err != nil {
				yield(nil, p.err)
				return
			}
			if !give(p.items, yield) {
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

// Series is plan.Executor.
func (e *engine) Series(ctx context.Context, queries iter.Seq[plan.Query], ahead int) iter.Seq2[plan.Page, error] {
	return func(yield func(plan.Page, error) bool) {
		readings := func(yield func(reading) bool) {
			for q := range queries {
				if !yield(e.pages(q)) {
					return
				}
			}
		}
		for place, p := range inOrder(ctx, readings, ahead) {
			if !yield(plan.Page{Query: place, Items: p.items, Last: p.last}, p.err) {
				return
			}
		}
	}
}
