package dynamostore

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
)

// turns lets the changes of one entity that have a handler take turns within this process. The zero turns is ready.
type turns struct {
	mu      sync.Mutex
	waiting map[annals.PersistenceID]*turn
}

type turn struct {
	taken chan struct{} // holds one while the turn is taken
	users int           // who has it or waits for it
}

// take waits for id's turn; the function it returns ends it, once.
func (ts *turns) take(ctx context.Context, id annals.PersistenceID) (end func(), err error) {
	ts.mu.Lock()
	if ts.waiting == nil {
		ts.waiting = map[annals.PersistenceID]*turn{}
	}
	t := ts.waiting[id]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		ts.waiting[id] = t
	}
	t.users++
	ts.mu.Unlock()
	leave := func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(ts.waiting, id)
		}
	}
	select {
	case t.taken <- struct{}{}:
		return sync.OnceFunc(func() { <-t.taken; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, stopped(ctx.Err())
	}
}
