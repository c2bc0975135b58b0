package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Merge is plan.Executor. Each query holds the page that is being yielded and one more. A query with a Limit, from which few items are
// wanted, does not read ahead.
func (e *engine) Merge(ctx context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
	if len(queries) == 1 {
		return e.Query(ctx, queries[0])
	}
	return func(yield func(plan.Item, error) bool) {
		running := newReaders(ctx)
		defer running.stop()
		shards := make([]*shard, len(queries))
		for i, q := range queries {
			s := &shard{}
			if q.Limit > 0 {
				s.wanted = make(chan struct{}, 1)
			}
			s.pages = running.start(e.pages(q), s.wanted)
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
			it := first.items[0]
			first.items, first.known = first.items[1:], false
			if !yield(it, nil) {
				return
			}
		}
	}
}

// shard is one query of a merge: the rest of its page, and the order of the first item in it.
type shard struct {
	pages  <-chan page
	wanted chan struct{} // receives a value for each further page that is wanted; nil: all are
	items  []plan.Item
	head   int64
	known  bool // head is the order of items[0]
	begun  bool
	ended  bool
}

// advance waits for the next page when items is empty. Afterwards items is empty only if the query has ended.
func (s *shard) advance(order string) error {
	for len(s.items) == 0 && !s.ended {
		if s.begun && s.wanted != nil {
			s.wanted <- struct{}{}
		}
		s.begun = true
		p, open := <-s.pages
		if p.err != nil {
			return p.err
		}
		s.items, s.ended = p.items, !open
	}
	if len(s.items) > 0 && !s.known {
		s.head, _ = plan.Number(s.items[0], order)
		s.known = true
	}
	return nil
}
