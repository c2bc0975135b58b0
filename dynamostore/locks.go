package dynamostore

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
)

// locks has a lock for each entity in use. The zero locks is ready for use.
type locks struct {
	mu   sync.Mutex
	byID map[annals.PersistenceID]*entityLock
}

// entityLock is the lock of one entity.
type entityLock struct {
	held  chan struct{} // has one value while the lock is held
	users int           // goroutines that hold the lock or wait for it
}

// lock locks id, or returns an error when ctx ends first. unlock may be called more than once.
func (ls *locks) lock(ctx context.Context, id annals.PersistenceID) (unlock func(), err error) {
	ls.mu.Lock()
	if ls.byID == nil {
		ls.byID = map[annals.PersistenceID]*entityLock{}
	}
	l := ls.byID[id]
	if l == nil {
		l = &entityLock{held: make(chan struct{}, 1)}
		ls.byID[id] = l
	}
	l.users++
	ls.mu.Unlock()
	leave := func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(ls.byID, id)
		}
	}
	select {
	case l.held <- struct{}{}:
		return sync.OnceFunc(func() { <-l.held; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, stopped(ctx.Err())
	}
}
