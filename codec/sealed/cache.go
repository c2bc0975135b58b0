package sealed

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// maxCached is how many subjects a Keys has in memory.
const maxCached = 10_000

// ring is the keys of a subject as they were read.
type ring struct {
	wrapped [][]byte // by number, from 1; none: they are destroyed
	until   time.Time
	timer   *time.Timer // removes the ring from memory

	mu   sync.Mutex
	keys []cipher.AEAD // by number, from 1; nil: not unwrapped yet
}

func newRing(wrapped [][]byte) *ring {
	return &ring{wrapped: wrapped, keys: make([]cipher.AEAD, len(wrapped))}
}

func (r *ring) destroyed() bool { return len(r.wrapped) == 0 }

// key returns the key of that number, and for 0 the newest one with its number; nil when it is not there, or not unwrapped yet.
func (r *ring) key(number uint64) (cipher.AEAD, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number == 0 {
		number = uint64(len(r.keys))
	}
	if number == 0 || number > uint64(len(r.keys)) {
		return nil, 0
	}
	return r.keys[number-1], number
}

// cache has rings by subject.
type cache struct {
	mu    sync.Mutex
	rings map[string]*ring
}

// get returns nil when the cache has none.
func (c *cache) get(subject string) *ring {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rings[subject]; r != nil && time.Now().Before(r.until) {
		return r
	}
	return nil
}

// put keeps r until the time. That a subject is destroyed is not replaced by a ring that was read before.
func (c *cache) put(subject string, r *ring, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.rings[subject]; old != nil && old.destroyed() && !r.destroyed() {
		return
	}
	c.remove(subject)
	for other := range c.rings { // any one
		if len(c.rings) < maxCached {
			break
		}
		c.remove(other)
	}
	if c.rings == nil {
		c.rings = map[string]*ring{}
	}
	c.rings[subject], r.until = r, until
	r.timer = time.AfterFunc(time.Until(until), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rings[subject] == r {
			delete(c.rings, subject)
		}
	})
}

// drop removes the keys of subject, but not that they are destroyed.
func (c *cache) drop(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rings[subject]; r != nil && !r.destroyed() {
		c.remove(subject)
	}
}

func (c *cache) remove(subject string) {
	if r := c.rings[subject]; r != nil {
		r.timer.Stop()
		delete(c.rings, subject)
	}
}

// key returns the key of that number. Number 0 is the newest one, which is created when the subject has none. The error is ErrForgotten when
// the keys are destroyed.
func (k *Keys) key(subject string, number uint64) (cipher.AEAD, uint64, error) {
	r := k.cache.get(subject)
	if r != nil {
		if c, n := r.key(number); c != nil {
			return c, n, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.o.Timeout)
	defer cancel()
	if r == nil || !r.destroyed() && uint64(len(r.wrapped)) < number { // another process may have rotated
		var err error
		if r, err = k.read(ctx, subject, number); err != nil {
			return nil, 0, err
		}
	}
	if r.destroyed() {
		return nil, 0, forgotten(k.id(subject))
	}
	if number == 0 {
		number = uint64(len(r.wrapped))
	}
	key, err := k.unwrap(ctx, k.id(subject), subject, r.wrapped[number-1])
	if err != nil {
		return nil, 0, err
	}
	defer clear(key)
	c, err := newCipher(key[:keySize])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[number-1] = c
	return c, number, err
}

// read reads the keys of subject, among which that of the number must be. For number 0 it creates one when there is none.
func (k *Keys) read(ctx context.Context, subject string, number uint64) (r *ring, err error) {
	until := time.Now().Add(k.o.Cache) // before the read: the keys may be destroyed before its answer arrives
	err = k.change(ctx, subject, func(s annals.State) error {
		wrapped, err := k.wrapped(s)
		if number == 0 && err == nil && len(wrapped) == 0 {
			var first []byte
			if first, err = k.create(ctx, s.ID, subject); err == nil {
				wrapped = [][]byte{first}
				err = k.put(ctx, s, wrapped)
			}
		}
		switch {
		case errors.Is(err, ErrForgotten):
		case err != nil:
			return err
		case uint64(len(wrapped)) < number:
			return corrupt(s.ID, fmt.Errorf("key %d is neither stored nor destroyed", number))
		}
		r = newRing(wrapped)
		return nil
	})
	if err == nil {
		k.cache.put(subject, r, until)
	}
	return r, err
}
