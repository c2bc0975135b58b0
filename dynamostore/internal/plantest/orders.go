package plantest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Scenario is processes that use the same tables at the same time.
type Scenario struct {
	Tables    *Executor                     // with the items that exist before the processes begin
	Processes []func(x plan.Executor) error // an error says what is wrong with the answers that the process got
	End       func(x plan.Executor) error   // called after the end of all processes; nil: nothing to check
}

// Orders are the options of EveryOrder.
type Orders struct {
	Page int  // items in a page of a query, and keys in a request of GetEach; other requests may come between two. 0 is all items in one page, and 100 keys
	Late bool // one write is executed a second time, at any later moment: a request that was sent twice because its answer was lost
}

// EveryOrder runs a scenario once for each order in which the requests of the processes can reach the tables, and stops at the first
// error. begin makes a new Scenario for each run; all must be equal. When a run reaches a state that an earlier run has reached, with
// the same items and the same answers to the processes, it ends.
func EveryOrder(t testing.TB, o Orders, begin func(s *Run) Scenario) {
	t.Helper()
	seen := map[uint64]bool{}
	runs := 0
	for choices := []int{}; choices != nil; runs++ {
		s := &Run{Orders: o, choices: choices, seen: seen}
		if err := s.run(begin(s)); err != nil {
			t.Fatalf("%v\nin the order\n%s", err, s.tables.Log())
		}
		choices = s.next()
	}
	t.Logf("%d states in %d runs", len(seen), runs)
}

// Run is one run of a scenario.
type Run struct {
	Orders
	tables    *Executor
	processes []*process
	active    *process // the one whose request is executed; nil before the first request
	writes    []write
	twice     bool // a write has been executed a second time

	prepared uint64 // unique numbers given before the run

	choices []int // the first choices to make; later ones take the first possibility
	chosen  []choice
	seen    map[uint64]bool
}

type choice struct{ taken, of int }

// write is a write that was executed, and may be executed again.
type write struct {
	text string
	do   func()
}

// Unique returns a number that no other call in this run returns. It does not depend on the order in which processes call it.
func (s *Run) Unique() uint64 {
	if s.active == nil {
		s.prepared++
		return s.prepared
	}
	s.active.numbers++
	return uint64(s.active.place+1)<<32 + s.active.numbers
}

// next returns the choices of the next run: the next possibility at the last choice that has one. It returns nil after the last run.
func (s *Run) next() []int {
	for at, c := range slices.Backward(s.chosen) {
		if c.taken+1 < c.of {
			next := make([]int, 0, at+1)
			for _, c := range s.chosen[:at] {
				next = append(next, c.taken)
			}
			return append(next, c.taken+1)
		}
	}
	return nil
}

func (s *Run) run(p Scenario) error {
	s.tables = p.Tables
	s.tables.Log()
	var ends sync.WaitGroup
	defer ends.Wait()
	for i, do := range p.Processes {
		a := &process{Executor: s.tables, s: s, place: i, turn: make(chan int), parked: make(chan bool), clock: s.tables.Time}
		s.processes = append(s.processes, a)
		ends.Go(func() {
			defer func() { a.ended, a.waiting = true, 0; close(a.parked) }()
			if _, goes := <-a.turn; goes {
				a.err = do(a)
			}
		})
	}
	defer func() {
		for _, a := range s.processes {
			if !a.ended {
				close(a.turn)
			}
		}
	}()
	for _, a := range s.processes { // up to the first request
		if err := s.advance(a, 0); err != nil {
			return err
		}
	}
	for {
		var may []func() error
		for _, a := range s.processes {
			for i := range a.waiting {
				may = append(may, func() error { return s.advance(a, i) })
			}
		}
		if s.Late && !s.twice {
			for _, w := range s.writes {
				may = append(may, func() error { s.again(w); return nil })
			}
		}
		if len(may) == 0 {
			break
		}
		if len(s.chosen) >= len(s.choices) && s.before() {
			return nil
		}
		taken := 0
		if at := len(s.chosen); at < len(s.choices) {
			taken = s.choices[at]
		}
		s.chosen = append(s.chosen, choice{taken, len(may)})
		if err := may[taken](); err != nil {
			return err
		}
	}
	if p.End == nil {
		return nil
	}
	s.tables.Note("the end")
	return p.End(s.tables)
}

// advance executes one of the requests that a process waits with, and lets the process continue to its next request, or to its end.
func (s *Run) advance(a *process, request int) error {
	s.active = a
	a.turn <- request
	<-a.parked
	return a.err
}

// again executes a write a second time.
func (s *Run) again(w write) {
	s.twice, s.writes = true, nil
	s.tables.Note("late, and a second time:")
	w.do()
}

// before reports whether an earlier run has reached this state.
func (s *Run) before() bool {
	sum := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(s.tables.tables)) {
		for _, it := range s.tables.tables[name].items {
			_, _ = sum.Write([]byte(showItem(it)))
		}
	}
	for _, a := range s.processes {
		_, _ = fmt.Fprint(sum, "\nprocess ", a.ended, a.heard)
	}
	_, _ = fmt.Fprint(sum, "\nlate ", s.twice)
	texts := make([]string, 0, len(s.writes))
	for _, w := range s.writes {
		texts = append(texts, w.text)
	}
	slices.Sort(texts)
	_, _ = fmt.Fprint(sum, texts)
	key := sum.Sum64()
	known := s.seen[key]
	s.seen[key] = true
	return known
}

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
	a.Time = a.clock
	do[i]()
	a.clock = a.Time
	a.hear(a.log.String()[begin:])
}

func (a *process) hear(text string) {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, a.heard, text)
	a.heard = sum.Sum64()
}

// Now is plan.Executor. Each process has its own clock, so that times do not depend on the order of requests.
func (a *process) Now() time.Time {
	a.clock = a.clock.Add(time.Second)
	return a.clock
}

// Get is plan.Executor.
func (a *process) Get(ctx context.Context, g plan.Get) (it plan.Item, ok bool, err error) {
	a.request(func() { it, ok, err = a.Executor.Get(ctx, g) })
	a.hear(showItem(it))
	return it, ok, err
}

// GetAll is plan.Executor.
func (a *process) GetAll(ctx context.Context, g plan.GetAll) (found []plan.Item, err error) {
	a.request(func() { found, err = a.Executor.GetAll(ctx, g) })
	for _, it := range found {
		a.hear(showItem(it))
	}
	return found, err
}

// GetEach is plan.Executor: a request for as many keys as a page has.
func (a *process) GetEach(ctx context.Context, table string, keys iter.Seq[plan.Item], ahead int) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for chunk := range chunks(keys, cmp.Or(a.s.Page, 100)) {
			var items []plan.Item
			var failed error
			a.request(func() {
				for it, err := range a.Executor.GetEach(ctx, table, slices.Values(chunk), ahead) {
					items, failed = append(items, it), err
				}
			})
			for _, it := range items {
				a.hear(showItem(it))
				if !yield(it, failed) {
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
			open = append(open, &series{pages: pages{query: q}, Page: plan.Page{Query: place}})
			if place++; len(open) > ahead && !first() {
				return
			}
		}
		for len(open) > 0 && first() {
		}
	}
}

// series is one query of a Series.
type series struct {
	pages
	plan.Page
	err  error
	read bool // Page has been read, and not yet been yielded
}

func (s *series) next(a *process) {
	if s.last != nil && s.query.Paged != nil {
		s.query.Paged()
	}
	s.Items, s.err = s.pages.next(a.Executor, a.s.Page)
	s.Last, s.read = s.ended, true
	for _, it := range s.Items {
		a.hear(showItem(it))
	}
}

// Query is plan.Executor, page by page.
func (a *process) Query(_ context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for p := (pages{query: q}); ; {
			var page []plan.Item
			var err error
			a.request(func() { page, err = p.next(a.Executor, a.s.Page) })
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range page {
				a.hear(showItem(it))
				if !yield(it, nil) {
					return
				}
			}
			if p.ended {
				return
			}
			if q.Paged != nil {
				q.Paged()
			}
		}
	}
}

// pages are those of a query.
type pages struct {
	query  plan.Query
	last   plan.Item // of the page before
	anchor plan.Item // where the next page begins
	ended  bool
}

func (p *pages) next(e *Executor, size int) ([]plan.Item, error) {
	_, sort := e.tables[p.query.Table].Keys(p.query.Index)
	found := e.tables[p.query.Table].query(p.query)
	if p.last != nil {
		found = slices.DeleteFunc(found, func(it plan.Item) bool {
			order := compare(it[sort.Name], p.last[sort.Name])
			if p.anchor != nil {
				return compare(it[sort.Name], p.anchor[sort.Name]) < 0
			}
			return order == 0 || (order < 0) != p.query.Backward
		})
	}
	e.print("%s", showQuery(p.query, []string{fmt.Sprintf("%q", p.query.Hash)}))
	if p.anchor != nil && (len(found) == 0 || compare(found[0][sort.Name], p.anchor[sort.Name]) != 0) {
		e.print("    = the anchor has been removed\n")
		return nil, &annals.Error{Kind: annals.ErrTruncated}
	}
	again := p.anchor != nil
	if size == 0 || len(found) <= size {
		p.ended = true
	} else {
		found = found[:max(size, 2)] // a page that begins with an anchor has at least one more item
		p.last, p.anchor = found[len(found)-1], nil
		for i, it := range slices.Backward(found) {
			if p.query.Anchor != nil && p.query.Anchor(it) && (i > 0 || !again) {
				p.anchor = it
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
	return func(yield func(plan.Item, error) bool) {
		var found []plan.Item
		var failed error
		a.request(func() {
			for it, err := range a.Executor.Merge(ctx, queries, order) {
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
func (a *process) ScanAll(ctx context.Context, table string, fields []string, p plan.Part) iter.Seq2[[]plan.Item, error] {
	return func(yield func([]plan.Item, error) bool) {
		var found []plan.Item
		var failed error
		a.request(func() {
			for page, err := range a.Executor.ScanAll(ctx, table, fields, p) {
				found, failed = append(found, page...), err
			}
		})
		yield(found, failed)
	}
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
			a.mayRepeat(a.log.String()[begin:], func() { _, _ = a.Executor.Write(ctx, again) })
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
		a.mayRepeat(a.log.String()[begin:], func() { _ = a.Executor.DeleteAll(ctx, table, keys) })
	})
	return err
}

func (a *process) mayRepeat(text string, do func()) {
	if !a.s.twice {
		a.s.writes = append(a.s.writes, write{text, do})
	}
}
