package plantest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/random"
)

// process is the executor of one process. It waits before each request until the request may be executed.
type process struct {
	*Executor
	s       *Run
	place   int
	waiting int      // how many requests may be executed next; the process continues after one of them
	turn    chan int // the one that is executed; closed when the run has ended
	parked  chan bool
	ended   bool
	err     error
	heard   uint64 // a hash of its requests and their answers
	numbers uint64
	clock   time.Time
	ahead   time.Duration // of the clock, with Clocks
	jammed  time.Time     // until then its writes are throttled
}

// request waits until the request may be executed, and executes it. When it is one of several that are sent at the same time, one of them is
// executed.
func (a *process) request(do ...func()) {
	a.waiting = len(do)
	a.parked <- true
	i, goes := <-a.turn
	if !goes {
		runtime.Goexit()
	}
	fmt.Fprintf(&a.log, "# process %d\n", a.place+1)
	begin := a.log.Len()
	a.Time = a.clock.Add(a.ahead)
	do[i]()
	a.clock = a.Time.Add(-a.ahead)
	a.jump()
	a.hear(a.log.String()[begin:])
}

func (a *process) hear(text string) {
	sum := fnv.New64a()
	_, _ = sum.Write(strconv.AppendUint(nil, a.heard, 10))
	_, _ = io.WriteString(sum, text)
	a.heard = sum.Sum64()
}

// Now is plan.Executor. Each process has its own clock, so that times do not depend on the order of requests.
func (a *process) Now() time.Time {
	a.clock = a.clock.Add(time.Second)
	return a.clock.Add(a.ahead)
}

// Clock is Service.
func (a *process) Clock() time.Time { return time.Now().Add(a.ahead) }

// jump sets the clock of a forward or back, at some requests.
func (a *process) jump() {
	if a.s.Clocks && a.s.random.OneIn(4) {
		unit := random.OneOf(a.s.random, time.Millisecond, time.Second, time.Minute, 24*time.Hour)
		a.ahead = time.Duration(a.s.random.IntN(200)-100) * unit
		a.print("# the clock of process %d is %v ahead\n", a.place+1, a.ahead)
	}
}

// Get is plan.Executor.
func (a *process) Get(ctx context.Context, g plan.Get) (it plan.Item, ok bool, err error) {
	a.request(func() { it, ok, err = a.Executor.Get(ctx, g) })
	a.hear(showItem(it))
	return it, ok, err
}

// GetAll is plan.Executor.
func (a *process) GetAll(ctx context.Context, table string, keys []plan.Item) (found []plan.Item, err error) {
	a.request(func() { found, err = a.Executor.GetAll(ctx, table, keys) })
	for _, it := range found {
		a.hear(showItem(it))
	}
	return found, err
}

// GetMany is plan.Executor: each item is read by a request of its own, because the items are not of one moment.
func (a *process) GetMany(ctx context.Context, gets []plan.Get) (items []plan.Item, err error) {
	for _, g := range gets {
		it, _, err := a.Get(ctx, g)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

// GetTogether is plan.Executor.
func (a *process) GetTogether(ctx context.Context, gets []plan.Get) (items []plan.Item, err error) {
	a.request(func() { items, err = a.Executor.GetTogether(ctx, gets) })
	for _, it := range items {
		a.hear(showItem(it))
	}
	return items, err
}

// Then is plan.Executor.
func (a *process) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, a)
}

// GetEach is plan.Executor: a request for as many keys as a page has.
func (a *process) GetEach(_ context.Context, table string, keys iter.Seq[plan.Item], _ int) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for chunk := range plan.Chunks(keys, cmp.Or(a.s.Page, 100)) {
			var items []plan.Item
			a.request(func() { items = a.each("get each", table, chunk) })
			for _, it := range items {
				a.hear(showItem(it))
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// Series is plan.Executor, page by page. The queries that are read ahead can be executed before those in front of them.
func (a *process) Series(_ context.Context, queries iter.Seq[plan.Query], ahead int) iter.Seq2[plan.Page, error] {
	return func(yield func(plan.Page, error) bool) {
		var open []*series
		first := func() bool {
			for {
				for s := open[0]; s.read; {
					if s.read = false; !yield(s.Page, s.err) || s.err != nil {
						return false
					}
					if s.Last {
						open = open[1:]
						return true
					}
				}
				var may []func()
				for _, s := range open {
					if !s.read {
						may = append(may, func() { s.next(a) })
					}
				}
				a.request(may...)
			}
		}
		place := 0
		for q := range queries {
			open = append(open, &series{query: q, Page: plan.Page{Query: place}})
			if place++; len(open) > ahead && !first() {
				return
			}
		}
		for len(open) > 0 && first() {
		}
	}
}

// Query is plan.Executor, page by page.
func (a *process) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for p, err := range a.Series(ctx, slices.Values([]plan.Query{q}), 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range p.Items {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// series is one query of a Series.
type series struct {
	plan.Page
	err    error
	read   bool // Page has been read, and not yet been yielded
	query  plan.Query
	last   plan.Item // of the page before
	anchor plan.Item // where the next page begins
}

// next reads the next page.
func (s *series) next(a *process) {
	if s.last != nil && s.query.Paged != nil {
		s.query.Paged()
	}
	tables := a.Executor
	if a.s.lags(s.query) {
		tables = a.s.index()
	}
	s.Items, s.err = s.page(tables, a.s.Page)
	s.read = true
	for _, it := range s.Items {
		a.hear(showItem(it))
	}
}

func (s *series) page(e *Executor, size int) ([]plan.Item, error) {
	_, sort := e.tables[s.query.Table].Keys(s.query.Index)
	found := e.tables[s.query.Table].query(s.query)
	if s.last != nil {
		found = slices.DeleteFunc(found, func(it plan.Item) bool {
			order := compare(it[sort.Name], s.last[sort.Name])
			if s.anchor != nil {
				return compare(it[sort.Name], s.anchor[sort.Name]) < 0
			}
			return order == 0 || (order < 0) != s.query.Backward
		})
	}
	e.print("%s", showQuery(s.query, []string{fmt.Sprintf("%q", s.query.Hash)}))
	if s.anchor != nil && (len(found) == 0 || compare(found[0][sort.Name], s.anchor[sort.Name]) != 0) {
		e.print("    = the anchor has been removed\n")
		return nil, &annals.Error{Kind: annals.ErrTruncated}
	}
	again := s.anchor != nil
	if size == 0 || len(found) <= size {
		s.Last = true
	} else {
		found = found[:max(size, 2)] // a page that begins with an anchor has at least one more item
		s.last, s.anchor = found[len(found)-1], nil
		for i, it := range slices.Backward(found) {
			if s.query.Anchor != nil && s.query.Anchor(it) && (i > 0 || !again) {
				s.anchor = it
				break
			}
		}
	}
	numbers := make([]string, len(found))
	for i, it := range found {
		numbers[i] = show(it[sort.Name])
	}
	e.print("    = %s\n", strings.Join(numbers, ", "))
	return found, nil
}

// Merge is plan.Executor: one request.
func (a *process) Merge(ctx context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
	return a.whole(a.Executor.Merge(ctx, queries, order))
}

// whole reads all by one request.
func (a *process) whole(all iter.Seq2[plan.Item, error]) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		var found []plan.Item
		var failed error
		a.request(func() {
			for it, err := range all {
				if failed = err; err == nil {
					found = append(found, it)
				}
			}
		})
		for _, it := range found {
			a.hear(showItem(it))
			if !yield(it, nil) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// Scan is plan.Executor.
func (a *process) Scan(ctx context.Context, table string, limit int) (items []plan.Item, err error) {
	a.request(func() { items, err = a.Executor.Scan(ctx, table, limit) })
	return items, err
}

// ScanAll is plan.Executor: one request.
func (a *process) ScanAll(ctx context.Context, table string, fields []string, p plan.Part) iter.Seq2[plan.Item, error] {
	return a.whole(a.Executor.ScanAll(ctx, table, fields, p))
}

// Write is plan.Executor. A transaction is not executed twice: the service recognises its token.
func (a *process) Write(ctx context.Context, w plan.Write) (out plan.Outcome, err error) {
	a.request(func() {
		begin := a.log.Len()
		out, err = a.Executor.Write(ctx, w)
		if conflict, ok := errors.AsType[*annals.Error](err); ok {
			a.print("    = %v\n", conflict.Kind)
		}
		if len(w.Ops) == 1 && w.Token == "" {
			again := plan.Write{Ops: slices.Clone(w.Ops)}
			again.Ops[0].Stamp = nil // the repeated request has the time of the first
			a.mayRepeat(a.log.String()[begin:], again.Ops[0].Put != nil, func() { _, _ = a.Executor.Write(ctx, again) })
		}
	})
	for _, it := range out.Old {
		a.hear(showItem(it))
	}
	return out, err
}

// DeleteAll is plan.Executor.
func (a *process) DeleteAll(ctx context.Context, table string, keys []plan.Item) (err error) {
	a.request(func() {
		begin := a.log.Len()
		err = a.Executor.DeleteAll(ctx, table, keys)
		a.mayRepeat(a.log.String()[begin:], false, func() { _ = a.Executor.DeleteAll(ctx, table, keys) })
	})
	return err
}

func (a *process) mayRepeat(text string, stores bool, do func()) {
	if !a.s.twice {
		a.s.writes = append(a.s.writes, write{text, stores, do})
	}
}
