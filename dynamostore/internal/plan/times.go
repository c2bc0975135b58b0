package plan

import (
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// Times remembers the newest time of each entity's writes. The clocks of processes differ and can go back; with Times no write gets a
// time before that of an earlier write that this process has written or read. The number of entities is bounded; those used
// last are kept. The zero Times is ready for use. Its methods may be called from many goroutines at once.
type Times struct {
	mu         sync.Mutex
	young, old map[annals.PersistenceID]time.Time
}

// timesKept is the most entities in young, and in old.
const timesKept = 1 << 14

// Learn records the time of a write that was made or read.
func (t *Times) Learn(id annals.PersistenceID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learn(id, at)
}

// NotBefore returns now, or the entity's newest known time when that is later.
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
