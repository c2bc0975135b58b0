package plantest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/random"
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
	Lag  bool // global indexes lag behind, in random schedules

	Faults bool // in random schedules, writes have faults
	Clocks bool // in random schedules, processes have clocks that differ and jump
}

// EveryOrder runs a scenario once for each order in which the requests of the processes can reach the tables, and stops at the first
// error. begin makes a new Scenario for each run; all must be equal. When a run reaches a state that an earlier run has reached, with
// the same items and the same answers to the processes, it ends.
func EveryOrder(t testing.TB, o Orders, begin func(s *Run) Scenario) {
	t.Helper()
	if err := inEveryOrder(t, o, begin); err != nil {
		t.Fatal(err)
	}
}

// inEveryOrder is EveryOrder, and returns the first error.
func inEveryOrder(t testing.TB, o Orders, begin func(s *Run) Scenario) error {
	t.Helper()
	seen := map[uint64]bool{}
	runs := 0
	for choices := []int{}; choices != nil; runs++ {
		s := &Run{Orders: o, choices: choices, seen: seen}
		if err := s.run(begin(s)); err != nil {
			return fmt.Errorf("%w\nin the order\n%s", err, s.tables.Log())
		}
		choices = s.next()
	}
	t.Logf("%d states in %d runs", len(seen), runs)
	return nil
}

// Run is one run of a scenario.
type Run struct {
	Orders
	tables    *Executor
	processes []*process
	active    *process // the one whose request is executed; nil before the first request
	writes    []write
	twice     bool // a write has been executed a second time
	stored    bool // it was one that stores an item

	prepared uint64 // unique numbers given before the run

	random  *random.Source       // makes the choices; nil: choices has them
	lagging *Executor            // what the indexes have, with Lag
	tokens  map[string]time.Time // of transactions, with the time at which they were stored

	choices []int // the first choices to make; later ones take the first possibility
	chosen  []choice
	seen    map[uint64]bool
}

type choice struct{ taken, of int }

// write is a write that was executed, and may be executed again.
type write struct {
	text   string
	stores bool // it stores an item
	do     func()
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
		taken := 0
		switch at := len(s.chosen); {
		case s.random != nil:
			taken = s.random.IntN(len(may))
		case at < len(s.choices):
			taken = s.choices[at]
		case s.before():
			return nil
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
	s.twice, s.stored, s.writes = true, w.stores, nil
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
