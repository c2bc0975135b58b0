package plantest

import (
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

// Play is what EveryOrder plays: processes that use the same tables at the same time.
type Play struct {
	Tables    *Executor                     // with what is there before the processes begin
	Processes []func(x plan.Executor) error // an error says what is wrong with what the process was answered
	End       func(x plan.Executor) error   // is called behind the end of all processes; nil: nothing to check
}

// Orders says how EveryOrder plays.
type Orders struct {
	Page int  // items in a page of a query; other requests may come between two pages. 0 = all items in one
	Late bool // one write lands a second time, at any later moment: a request that was sent twice because its answer was lost
}

// EveryOrder plays once for each order in which the requests of the processes can reach the tables, and stops at the first
// error. begin makes a new Play each time; it must make the same each time. A moment that was reached before, with the same
// items and with processes that were answered the same, is not played on from a second time.
func EveryOrder(t testing.TB, o Orders, begin func(s *Stage) Play) {
	t.Helper()
	seen := map[uint64]bool{}
	plays := 0
	for choices := []int{}; choices != nil; plays++ {
		s := &Stage{Orders: o, choices: choices, seen: seen}
		if err := s.play(begin(s)); err != nil {
			t.Fatalf("%v\nin the order\n%s", err, s.tables.Log())
		}
		choices = s.next()
	}
	t.Logf("%d moments in %d plays", len(seen), plays)
}

// Stage is one play at work.
type Stage struct {
	Orders
	tables  *Executor
	actors  []*actor
	playing *actor // whose request it is; nil before the first
	writes  []late
	twice   bool // a write has landed a second time

	prepared uint64 // unique numbers given before the play

	choices []int // what to choose first: beyond them always the first
	chosen  []choice
	seen    map[uint64]bool
}

type choice struct{ taken, of int }

// late is a write that was done and may land again.
type late struct {
	text string
	do   func()
}

// Unique is a number that no other call in this play returns. Which process asks first makes no difference.
func (s *Stage) Unique() uint64 {
	if s.playing == nil {
		s.prepared++
		return s.prepared
	}
	s.playing.numbers++
	return uint64(s.playing.place+1)<<32 + s.playing.numbers
}

// next are the choices of the next play, nil behind the last: one more at the last place where there is one.
func (s *Stage) next() []int {
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

func (s *Stage) play(p Play) error {
	s.tables = p.Tables
	s.tables.Log()
	var ends sync.WaitGroup
	defer ends.Wait()
	for i, process := range p.Processes {
		a := &actor{Executor: s.tables, s: s, place: i, turn: make(chan bool), parked: make(chan bool), clock: s.tables.Time}
		s.actors = append(s.actors, a)
		ends.Go(func() {
			defer func() { a.ended = true; close(a.parked) }()
			if <-a.turn {
				a.err = process(a)
			}
		})
	}
	defer func() {
		for _, a := range s.actors {
			if !a.ended {
				close(a.turn)
			}
		}
	}()
	for _, a := range s.actors { // up to the first request
		if err := s.advance(a); err != nil {
			return err
		}
	}
	for {
		var may []func() error
		for _, a := range s.actors {
			if !a.ended {
				may = append(may, func() error { return s.advance(a) })
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

// advance lets a's process go on to its next request, or to its end.
func (s *Stage) advance(a *actor) error {
	s.playing = a
	a.turn <- true
	<-a.parked
	return a.err
}

// again lets a write land that has landed before.
func (s *Stage) again(w late) {
	s.twice, s.writes = true, nil
	s.tables.Note("late, and a second time:")
	w.do()
}

// before reports whether this moment was reached before.
func (s *Stage) before() bool {
	sum := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(s.tables.tables)) {
		for _, it := range s.tables.tables[name].items {
			_, _ = sum.Write([]byte(showItem(it)))
		}
	}
	for _, a := range s.actors {
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

// actor is the executor of one process. It stops before each request until it is that request's turn.
type actor struct {
	*Executor
	s       *Stage
	place   int
	turn    chan bool // closed: the play has ended
	parked  chan bool
	ended   bool
	err     error
	heard   uint64 // what it asked, and was answered
	numbers uint64
	clock   time.Time
}

// request waits for its turn and does what is asked.
func (a *actor) request(do func()) {
	a.parked <- true
	if !<-a.turn {
		runtime.Goexit()
	}
	fmt.Fprintf(&a.log, "# process %d\n", a.place+1)
	begin := a.log.Len()
	a.Time = a.clock
	do()
	a.clock = a.Time
	a.hear(a.log.String()[begin:])
}

func (a *actor) hear(text string) {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, a.heard, text)
	a.heard = sum.Sum64()
}

// Now is plan.Executor: a clock of the process's own, so that it shows no order.
func (a *actor) Now() time.Time {
	a.clock = a.clock.Add(time.Second)
	return a.clock
}

// Get is plan.Executor.
func (a *actor) Get(ctx context.Context, g plan.Get) (it plan.Item, ok bool, err error) {
	a.request(func() { it, ok, err = a.Executor.Get(ctx, g) })
	a.hear(showItem(it))
	return it, ok, err
}

// GetAll is plan.Executor.
func (a *actor) GetAll(ctx context.Context, g plan.GetAll) (found []plan.Item, err error) {
	a.request(func() { found, err = a.Executor.GetAll(ctx, g) })
	for _, it := range found {
		a.hear(showItem(it))
	}
	return found, err
}

// Query is plan.Executor, page by page.
func (a *actor) Query(_ context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
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
		found = found[:max(size, 2)] // a page that begins with an anchor has at least one item more
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
func (a *actor) Merge(ctx context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
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
func (a *actor) Scan(ctx context.Context, table string, limit int) (items []plan.Item, err error) {
	a.request(func() { items, err = a.Executor.Scan(ctx, table, limit) })
	return items, err
}

// ScanAll is plan.Executor: one request.
func (a *actor) ScanAll(ctx context.Context, table string, fields []string) iter.Seq2[[]plan.Item, error] {
	return func(yield func([]plan.Item, error) bool) {
		var found []plan.Item
		var failed error
		a.request(func() {
			for page, err := range a.Executor.ScanAll(ctx, table, fields) {
				found, failed = append(found, page...), err
			}
		})
		yield(found, failed)
	}
}

// Write is plan.Executor. A transaction does not land twice: the service knows it by its token.
func (a *actor) Write(ctx context.Context, w plan.Write) (out plan.Outcome, err error) {
	a.request(func() {
		begin := a.log.Len()
		out, err = a.Executor.Write(ctx, w)
		if conflict, ok := errors.AsType[*annals.Error](err); ok {
			a.print("    = %v\n", conflict.Kind)
		}
		if len(w.Ops) == 1 && !w.Token {
			again := plan.Write{Ops: slices.Clone(w.Ops)}
			again.Ops[0].Stamp = nil // it has the time of its first sending
			a.mayLandAgain(a.log.String()[begin:], func() { _, _ = a.Executor.Write(ctx, again) })
		}
	})
	for _, it := range out.Old {
		a.hear(showItem(it))
	}
	return out, err
}

// DeleteAll is plan.Executor.
func (a *actor) DeleteAll(ctx context.Context, table string, keys []plan.Item) (err error) {
	a.request(func() {
		begin := a.log.Len()
		err = a.Executor.DeleteAll(ctx, table, keys)
		a.mayLandAgain(a.log.String()[begin:], func() { _ = a.Executor.DeleteAll(ctx, table, keys) })
	})
	return err
}

func (a *actor) mayLandAgain(text string, do func()) {
	if !a.s.twice {
		a.s.writes = append(a.s.writes, late{text, do})
	}
}
