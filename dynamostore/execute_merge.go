package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// A merge holds two pages of each query in memory. Up to fewQueries queries have pages of up to 1 MB, the limit of the service, and are read
// ahead before the first item is yielded. The pages of more queries have about mergedBytes together.
const (
	fewQueries  = 32
	mergedBytes = fewQueries << 20
)

// Merge is plan.Executor. Each query holds one page until an item of it is yielded, and then that page and one more; of few queries it holds
// two pages at once. A query with a Limit, from which few items are wanted, does not read ahead.
func (e *engine) Merge(ctx context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
	if len(queries) == 1 {
		return e.Query(ctx, queries[0])
	}
	return func(yield func(plan.Item, error) bool) {
		running := newReaders(ctx)
		defer running.stop()
		shards := make([]*shard, len(queries))
		for i, q := range queries {
			if q.Bytes == 0 && len(queries) > fewQueries {
				q.Bytes = mergedBytes / len(queries)
			}
			s := &shard{asked: true, ahead: q.Limit == 0}
			if !s.ahead || len(queries) > fewQueries {
				s.wanted = make(chan struct{}, 1)
			}
			s.pages = running.start(e.pages(running.ctx, q), s.wanted)
			shards[i] = s
		}
		backward := queries[0].Backward
		for {
			var first *shard
			for _, s := range shards {
				if err := s.advance(order); err != nil {
					yield(nil, err)
					return
				}
				if len(s.items) > 0 && (first == nil || s.head != first.head && (s.head > first.head) == backward) {
					first = s
				}
			}
			if first == nil {
				return
			}
			if !yield(first.take(), nil) {
				return
			}
		}
	}
}

// shard is one query of a merge: the rest of its page, and the order of the first item in it.
type shard struct {
	pages  <-chan received
	wanted chan struct{} // receives a value for each page that is wanted after the first; nil: the next page is read when a page has been received
	ahead  bool          // the next page is wanted when the first item of a page is taken, otherwise when the last one has been
	items  []plan.Item
	head   int64
	known  bool // head is the order of items[0]
	asked  bool // the next page is wanted
	ended  bool
}

// ask wants the next page, once.
func (s *shard) ask() {
	if s.wanted != nil && !s.asked {
		s.asked = true
		s.wanted <- struct{}{}
	}
}

// take removes the first item.
func (s *shard) take() plan.Item {
	if s.ahead {
		s.ask()
	}
	it := s.items[0]
	s.items, s.known = s.items[1:], false
	return it
}

// advance waits for the next page when items is empty. Afterwards items is empty only if the query has ended.
func (s *shard) advance(order string) error {
	for len(s.items) == 0 && !s.ended {
		s.ask()
		p, open := <-s.pages
		if p.err != nil {
			return p.err
		}
		s.items, s.asked, s.ended = p.Items, false, !open
	}
	if len(s.items) > 0 && !s.known {
		s.head, _ = plan.Number(s.items[0], order)
		s.known = true
	}
	return nil
}
