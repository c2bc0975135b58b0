package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/annals-go/annals"
)

// Seen is what a transaction has read or written of an entity.
type Seen struct {
	ID     annals.PersistenceID
	State  bool         // Number is the revision of the durable state, not the last number of the events
	Number annals.SeqNr // 0: there was nothing
}

// Conflict is the error of a transaction that has read r, where the number is now n.
func (r Seen) Conflict(n annals.SeqNr) error {
	return &annals.Error{ID: r.ID, Last: n, Kind: annals.ErrConflict, Err: fmt.Errorf("the transaction has read number %d", r.Number)}
}

// reads are what a transaction has read and written. The key is a Seen without Number. nil: nothing is noted.
type reads struct {
	mu      sync.Mutex
	numbers map[Seen]number
	written map[Seen]bool
	stale   error // something was written after another number than the one that was read
}

// number is the number that was read first, and how often one was read.
type number struct {
	annals.SeqNr
	times int
}

// saw notes that r was read. When it is read twice, the first number counts.
func (t *transaction) saw(r Seen) {
	if t == nil || t.reads == nil {
		return
	}
	key := Seen{ID: r.ID, State: r.State}
	t.reads.mu.Lock()
	defer t.reads.mu.Unlock()
	if t.reads.written[key] {
		return
	}
	n, again := t.reads.numbers[key]
	if !again {
		n.SeqNr = r.Number
	}
	n.times++
	t.reads.numbers[key] = n
}

// wrote notes the outcome of a write after r.Number, whose condition guards from then on. A write that an earlier transaction has done guards
// nothing. After a conflict, what was read once does not count: the caller knows that it is out of date.
func (t *transaction) wrote(r Seen, repeated bool, err error) {
	if t == nil || t.reads == nil || repeated || err != nil && !errors.Is(err, annals.ErrConflict) {
		return
	}
	key := Seen{ID: r.ID, State: r.State}
	t.reads.mu.Lock()
	defer t.reads.mu.Unlock()
	n, seen := t.reads.numbers[key]
	if err != nil {
		if n.times == 1 {
			delete(t.reads.numbers, key)
		}
		return
	}
	if seen && r.Number < n.SeqNr { // it has been done already, or the store will refuse it
		return
	}
	if seen && r.Number > n.SeqNr && t.reads.stale == nil {
		t.reads.stale = Seen{ID: r.ID, Number: n.SeqNr}.Conflict(r.Number)
	}
	delete(t.reads.numbers, key)
	t.reads.written[key] = true
}

// forgot notes that nothing is left of id, whatever its numbers were.
func (t *transaction) forgot(id annals.PersistenceID) {
	if t == nil || t.reads == nil {
		return
	}
	t.reads.mu.Lock()
	defer t.reads.mu.Unlock()
	for _, key := range []Seen{{ID: id}, {ID: id, State: true}} {
		delete(t.reads.numbers, key)
		t.reads.written[key] = true
	}
}

// noted reports whether the number of r is the one that was read.
func (t *transaction) noted(r Seen) bool {
	if t == nil || t.reads == nil {
		return false
	}
	t.reads.mu.Lock()
	defer t.reads.mu.Unlock()
	n, seen := t.reads.numbers[Seen{ID: r.ID, State: r.State}]
	return seen && n.SeqNr == r.Number
}

// list returns what Transaction.Guard is called with.
func (r *reads) list() (read, written []Seen, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, n := range r.numbers {
		key.Number = n.SeqNr
		read = append(read, key)
	}
	byID := func(a, b Seen) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.rank(), b.rank())) }
	slices.SortFunc(read, byID)
	return read, slices.SortedFunc(maps.Keys(r.written), byID), r.stale
}

func (r Seen) rank() int {
	if r.State {
		return 1
	}
	return 0
}

// replay is a replay by d, which notes the last number when the loop has come to it. That number is read before the events: an event that is
// stored in between is either yielded, or makes the number another one.
func (t *transaction) replay(ctx context.Context, d annals.Journal, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if t == nil || t.reads == nil {
		return d.Replay(ctx, id, from, to)
	}
	return func(yield func(annals.Event, error) bool) {
		var last annals.SeqNr
		err := Fetch(ctx, func(ctx context.Context) (err error) {
			last, err = d.LastSeqNr(ctx, id)
			return err
		})
		if err != nil {
			yield(annals.Event{}, err)
			return
		}
		for e, err := range d.Replay(ctx, id, from, to) {
			if !yield(e, err) || err != nil {
				return
			}
			last = max(last, e.SeqNr)
		}
		if to >= last {
			t.saw(Seen{ID: id, Number: last})
		}
	}
}
