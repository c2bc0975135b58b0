package plan

import (
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// Times are the newest times known of entities' writes, for clocks differ between processes, and go back: a write gets no
// time below that of the write before, as far as this process wrote or read that one. It holds a bounded number of entities,
// those that were used last. The zero Times is ready and may be used from many goroutines at once.
type Times struct {
	mu         sync.Mutex
	young, old map[annals.PersistenceID]time.Time
}

// timesKept is how many entities there are in young, and in old.
const timesKept = 1 << 14

// Learn is told the time of a write that was made or read.
func (t *Times) Learn(id annals.PersistenceID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learn(id, at)
}

// NotBefore is now, or a later time that is known of the entity.
func (t *Times) NotBefore(id annals.PersistenceID, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.learn(id, now)
}

func (t *Times) learn(id annals.PersistenceID, at time.Time) time.Time {
	known, ok := t.young[id]
	if !ok {
		known = t.old[id]
		if t.young == nil || len(t.young) == timesKept {
			t.young, t.old = map[annals.PersistenceID]time.Time{}, t.young
		}
	}
	if known.After(at) {
		at = known
	}
	if !ok || !at.Equal(known) {
		t.young[id] = at
	}
	return at
}
