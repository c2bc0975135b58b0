package calendar

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/document"
)

// chunk is some of the timers of a place. Timers are added at its end and removed from its begin, so numbers tell which ones were read.
type chunk struct {
	From   int64   `json:"from,omitempty"` // how many timers were removed so far
	Timers []Timer `json:"timers,omitempty"`
}

const (
	// fullChunk is how many bytes a chunk may have that timers are added to: DynamoDB counts a write in kilobytes.
	fullChunk = 1 << 10
	// maxChunk is how many bytes may be added to an empty chunk at once. With JSON's escapes it is less than any store takes.
	maxChunk = 32 << 10
)

// size is about how many bytes t takes.
func (t Timer) size() int { return len(t.ID) + len(t.Name) + 64 }

func (t Timer) equal(u Timer) bool { return t.ID == u.ID && t.Name == u.Name && t.Due.Equal(u.Due) }

// end is the number of the next timer that is added.
func (k chunk) end() int64 { return k.From + int64(len(k.Timers)) }

// drop removes the timers with numbers below to, and reports whether there were any.
func (k *chunk) drop(to int64) bool {
	n := max(min(to-k.From, int64(len(k.Timers))), 0)
	k.Timers, k.From = k.Timers[n:], k.From+n
	return n > 0
}

// fits is how many of ts, from the first on, may be added to k.
func (k chunk) fits(ts []Timer) (n int) {
	size, most := 0, maxChunk
	if len(k.Timers) > 0 {
		most = fullChunk
	}
	for _, t := range k.Timers {
		size += t.size()
	}
	for n < len(ts) && (size+ts[n].size() <= most || n == 0 && len(k.Timers) == 0) {
		size += ts[n].size()
		n++
	}
	return n
}

var chunkCodec = codec.JSON[chunk]("annals.calendar-chunk")

// chunk is the document with a chunk of a place.
func (c *Calendar) chunk(p place, number int) document.Document[chunk] {
	id := annals.NewPersistenceID("annals.calendar-chunk", fmt.Sprintf("%d.%d.%d/%s", p.level, p.ring, number, c.name))
	return document.Document[chunk]{ID: id, Codec: chunkCodec, Check: func(k chunk) error {
		if k.From < 0 {
			return fmt.Errorf("it begins with timer %d", k.From)
		}
		return nil
	}}
}

// writer adds timers to one place, for one goroutine of this process at a time. It knows the chunk that it wrote last.
type writer struct {
	c     *Calendar
	place place
	turn  chan struct{} // holds one while the writer is used

	known    bool // the rest is
	number   int
	revision annals.SeqNr
	chunk    chunk
}

// writer returns the writer of a place.
func (c *Calendar) writer(p place) *writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.places[p]
	if w == nil {
		w = &writer{c: c, place: p, turn: make(chan struct{}, 1)}
		c.places[p] = w
	}
	return w
}

// add writes timers, and returns the number of the last chunk that has some of them, plus one.
func (w *writer) add(ctx context.Context, ts []Timer) (chunks int, err error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return 0, &annals.Error{Op: "add timers", Kind: annals.ErrUnavailable, Err: ctx.Err()}
	}
	for len(ts) > 0 {
		n := 0
		err := retried(ctx, func() (err error) {
			n, err = w.write(ctx, ts)
			return err
		})
		if err != nil {
			return 0, err
		}
		ts, chunks = ts[n:], max(chunks, w.number+1)
	}
	return chunks, nil
}

// write adds some of ts to a chunk, and returns how many.
func (w *writer) write(ctx context.Context, ts []Timer) (n int, err error) {
	if err := w.find(ctx, ts); err != nil {
		return 0, err
	}
	w.known = false
	n, d := w.chunk.fits(ts), w.c.chunk(w.place, w.number)
	next := chunk{w.chunk.From, slices.Concat(w.chunk.Timers, ts[:n])}
	err = d.Save(ctx, w.c.store, w.revision, next)
	if errors.Is(err, annals.ErrUnknown) {
		k, revision, readErr := d.Load(ctx, w.c.store)
		if i := int(w.chunk.end() - k.From); readErr == nil && revision > w.revision && i >= 0 && i+n <= len(k.Timers) &&
			slices.EqualFunc(k.Timers[i:i+n], ts[:n], Timer.equal) {
			return n, nil // they were stored
		}
	}
	if err == nil {
		w.known, w.revision, w.chunk = true, w.revision+1, next
	}
	return n, err
}

// find looks for a chunk to which some of ts may be added: the one that the writer knows, the last one that has timers, or one without.
func (w *writer) find(ctx context.Context, ts []Timer) error {
	if w.known && w.chunk.fits(ts) > 0 {
		return nil
	}
	r, _, err := w.c.record().Load(ctx, w.c.store)
	if err != nil {
		return err
	}
	occupied, taking := r.chunks(w.place)
	for w.number = max(occupied-1, 0); ; w.number = max(w.number+1, taking) {
		w.chunk, w.revision, err = w.c.chunk(w.place, w.number).Load(ctx, w.c.store)
		if errors.Is(err, annals.ErrCorrupt) {
			continue // nothing can be added to it
		}
		if w.known = err == nil && w.chunk.fits(ts) > 0; w.known || err != nil {
			return err
		}
	}
}
