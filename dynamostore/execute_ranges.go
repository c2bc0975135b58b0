package dynamostore

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// rangesAhead is how many ranges of a long query are read at a time. Each holds at most one page that is not yet yielded, which bounds
// the memory of a replay.
const rangesAhead = 4

// ranges reads a dense query. When the first page is full, the last page is read next, backwards: it shows where the numbers end and
// how many fill a page. The middle is divided into ranges of about one page, which are read in parallel. Only the anchor is read
// twice, and no request is wasted, so the cost is that of reading page by page.
//
// The tail is read before the middle, so a concurrent delete appears as a hole. Do not set Dense where tail and middle must be of one
// moment.
func (e *engine) ranges(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		first, err := e.page(ctx, q, e.queryInput(q))
		if err != nil {
			yield(nil, err)
			return
		}
		if !give(first.Items, yield) || len(first.LastEvaluatedKey) == 0 {
			return
		}
		_, sort := e.tables[q.Table].Keys(q.Index)
		key := sort.Name
		end := number(first.LastEvaluatedKey, key)
		rest, anchor := q, lastAnchor(q, first.Items, false)[key]
		if rest.From = anchor; anchor == nil {
			rest.From = plan.N(end + 1)
		}
		if q.To != nil && end >= number(plan.Item{key: q.To}, key) {
			return
		}
		backward := rest
		backward.Backward = true
		last, err := e.page(ctx, backward, e.queryInput(backward))
		if err != nil {
			yield(nil, err)
			return
		}
		tail := last.Items
		slices.Reverse(tail)
		if anchor != nil && len(last.LastEvaluatedKey) == 0 && (len(tail) == 0 || plan.KeyText(tail[0][key]) != plan.KeyText(anchor)) {
			yield(nil, &annals.Error{Kind: annals.ErrTruncated})
			return
		}
		if len(last.LastEvaluatedKey) > 0 {
			to := number(last.LastEvaluatedKey, key) // the first item of the tail
			if !strings.Contains(plan.KeyText(last.LastEvaluatedKey[key]), ".") {
				to--
			}
			width := (span(first.Items, key) + span(tail, key)) / 2
			if !e.parallel(ctx, rest, stretch{end + 1, to, width}, yield) {
				return
			}
		}
		give(tail, yield)
	}
}

// stretch is the numbers from … to that are not yet read, and an estimate of how many of them fill a page.
type stretch struct{ from, to, width int64 }

// next takes a range off m. The range is a little narrower than the estimate, since items differ in size.
func (m *stretch) next() (from, to int64) {
	from = m.from
	to = min(from+max(m.width*9/10, 1)-1, m.to)
	m.from = to + 1
	return from, to
}

// learn adapts the estimate to a range of that many numbers that had that many bytes.
func (m *stretch) learn(numbers int64, bytes int) {
	m.width = min(max(numbers*pageBytes/int64(max(bytes, 1)), m.width/2, 1), 2*max(m.width, 1))
}

// pageBytes is the size at which the service ends a page.
const pageBytes = 1 << 20

func span(items []plan.Item, key string) int64 {
	if len(items) == 0 {
		return 0
	}
	return number(items[len(items)-1], key) - number(items[0], key) + 1
}

// number returns the range key of an item, rounded down.
func number(it plan.Item, key string) int64 {
	digits, _, _ := strings.Cut(plan.KeyText(it[key]), ".")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// parallel reads the items of q in m. It returns false when yield has returned false, or was given an error.
func (e *engine) parallel(ctx context.Context, q plan.Query, m stretch, yield func(plan.Item, error) bool) bool {
	var open []int64 // how many numbers each range has that is not yet read to its end
	ranges := func(ctx context.Context, yield func(reading) bool) {
		for m.from <= m.to {
			from, to := m.next()
			open = append(open, to-from+1)
			ranged := q
			ranged.Anchor = nil // the tail has been read already: an entity that is forgotten now appears as a hole
			ranged.From, ranged.To = plan.N(from), plan.N(to)
			if !yield(e.pages(ctx, ranged)) {
				return
			}
		}
	}
	bytes := 0 // in the range that is being yielded
	for p, err := range inOrder(ctx, rangesAhead-1, ranges) {
		if err != nil {
			yield(nil, err)
			return false
		}
		if !give(p.Items, yield) {
			return false
		}
		for _, it := range p.Items {
			bytes += plan.Size(it)
		}
		if p.Last {
			m.learn(open[0], bytes)
			open, bytes = open[1:], 0
		}
	}
	return true
}
