package projection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// put writes the revision of the state T|id, which must be the next one, with the revision as its value, or deletes the state.
func put(t *testing.T, s annals.Store, id string, revision annals.SeqNr, deletes bool) {
	t.Helper()
	w := annals.StateWrite{ID: annals.NewPersistenceID("T", id), After: revision - 1}
	var err error
	if deletes {
		_, err = s.States().Delete(t.Context(), w)
	} else {
		if w.Payload, err = numbers.Encode(int(revision)); err != nil {
			t.Fatal(err)
		}
		_, err = s.States().Put(t.Context(), w)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stateLog is a handler that lists the states that it gets. It fails for those in broken.
type stateLog struct {
	broken  []string
	mu      sync.Mutex
	handled []string
}

func (l *stateLog) handle(_ context.Context, e envelope) error {
	text := fmt.Sprintf("%s/%d=%d", e.ID.EntityID(), e.SeqNr, e.Value)
	if e.Deleted {
		text = fmt.Sprintf("%s/%d deleted", e.ID.EntityID(), e.SeqNr)
	}
	if slices.Contains(l.broken, text) {
		return errBroken
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled = append(l.handled, text)
	return nil
}

func (l *stateLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Sorted(slices.Values(l.handled))
	l.handled = nil
	return all
}

func (l *stateLog) runner(t *testing.T, s annals.Store, entityType string) *Runner {
	t.Helper()
	source := Source[int]{Store: s, Type: entityType, Codec: numbers, States: true}
	return must(t)(AtLeastOnce("p", source, s, l.handle, Options{Ranges: 1, OnError: park, Logger: silent}))
}

// A projection of states gets the newest state of each entity, and each change from then on.
func TestStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := memstore.New(), &stateLog{}
		for n := range annals.SeqNr(3) {
			put(t, s, "1", n+1, false)
		}
		put(t, s, "2", 1, false)
		put(t, s, "2", 2, true)
		put(t, s, "3", 1, false)
		add(t, s, 1, 9, 1) // events are not followed
		catchUp(t, l.runner(t, s, "T"))
		equal(t, "handled", l.take(), []string{"1/3=3", "2/2 deleted", "3/1=1"})
		put(t, s, "2", 3, false)
		put(t, s, "3", 2, true)
		c := NewControl(s, "p")
		if x := status(t, c, s); !x.States || x.Lag != 2 || x.Newest != (annals.Offset{}) {
			t.Errorf("with two states to handle: %+v", x)
		}
		for range 2 {
			catchUp(t, l.runner(t, s, "T"))
		}
		equal(t, "handled", l.take(), []string{"2/3=3", "3/2 deleted"})
		if x := status(t, c, s); x.Lag != 0 {
			t.Errorf("with all handled: %+v", x)
		}
	})
}

// CatchUp waits for the states that another runner handles, and not for those that come later.
func TestCatchUpOfStatesWhileAnotherRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := memstore.New(), &stateLog{}
		running(t, l.runner(t, s, "T"))
		time.Sleep(time.Second)
		for n := range annals.SeqNr(3) {
			put(t, s, "1", n+1, false)
			catchUp(t, (&stateLog{}).runner(t, s, "T"))
			equal(t, "handled", l.take(), []string{fmt.Sprintf("1/%d=%d", n+1, n+1)})
		}
	})
}

// A projection of all types does not get the states in which projections keep their own data: each change of those would cause the next.
func TestStatesOfAllTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := memstore.New(), &stateLog{}
		running(t, l.runner(t, s, ""))
		put(t, s, "1", 1, false)
		time.Sleep(time.Minute)
		equal(t, "handled", l.take(), []string{"1/1=1"})
		if x := status(t, NewControl(s, "p"), s); x.Lag != 0 || x.Parked != 0 {
			t.Errorf("of the states of projections %d are to be handled, and %d were parked", x.Lag, x.Parked)
		}
	})
}

// Of a parked entity, Retry handles the newest state.
func TestParkedState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := memstore.New(), &stateLog{broken: []string{"1/1=1", "1/3 deleted"}}
		c := NewControl(s, "p")
		retry := func(order error) {
			t.Helper()
			if order != nil {
				t.Fatal(order)
			}
			catchUp(t, l.runner(t, s, "T"))
		}
		put(t, s, "1", 1, false)
		catchUp(t, l.runner(t, s, "T"))
		put(t, s, "1", 2, false)
		put(t, s, "2", 1, false)
		catchUp(t, l.runner(t, s, "T"))
		equal(t, "handled", l.take(), []string{"2/1=1"})
		equal(t, "parked", parked(t, c), []string{"T|1/1"})
		retry(c.Retry(t.Context()))
		equal(t, "handled", l.take(), []string{"1/2=2"})
		equal(t, "parked", parked(t, c), []string(nil))

		put(t, s, "1", 3, true)
		catchUp(t, l.runner(t, s, "T"))
		retry(c.Retry(t.Context()))
		equal(t, "parked", parked(t, c), []string{"T|1/3"})
		retry(c.Discard(t.Context(), "T|1", annals.MaxSeqNr))
		equal(t, "parked", parked(t, c), []string(nil))
		put(t, s, "1", 4, false)
		catchUp(t, l.runner(t, s, "T"))
		equal(t, "handled", l.take(), []string{"1/4=4"})
	})
}

// A projection that follows events cannot go on with states.
func TestStatesAfterEvents(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	catchUp(t, must(t)(inMemory(s).least("p", s, nil, Options{})))
	if err := (&stateLog{}).runner(t, s, "T").CatchUp(t.Context()); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("states after events: %v, want ErrInvalid", err)
	}
}
