package plan

import (
	"cmp"
	"sync"
)

// Recent is a map in bounded memory: it has the keys that were changed last. The zero Recent is ready for use. Its methods may be called
// from many goroutines at once.
type Recent[K comparable, V any] struct {
	Most       int // how many of the keys changed last it has at least, and twice as many at most; 0 is 1 << 14
	mu         sync.Mutex
	young, old map[K]V
}

// Get returns the value of a key; false when the key is not known.
func (r *Recent[K, V]) Get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(key)
}

func (r *Recent[K, V]) get(key K) (V, bool) {
	v, ok := r.young[key]
	if !ok {
		v, ok = r.old[key]
	}
	return v, ok
}

// Change sets the value of a key to what change makes of its value, which is zero for a key that is not known.
func (r *Recent[K, V]) Change(key K, change func(v V, known bool) V) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := change(r.get(key))
	if _, young := r.young[key]; !young && (r.young == nil || len(r.young) == cmp.Or(r.Most, 1<<14)) {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[key] = v
	return v
}
