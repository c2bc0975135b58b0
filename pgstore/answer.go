package pgstore

import (
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// partEvents is how many events of a page are received at once. It is more than firstPage.
const partEvents = 256

// maxHold is how long an answer keeps its connection while the caller handles events.
const maxHold = 20 * time.Millisecond

// answer is the events that one statement returns. The caller takes them in parts, and the server sends further ones while the caller
// handles a part. After maxHold all remaining events are received and the connection is released, because the caller may be waiting
// for a connection of the same pool.
type answer struct {
	whole bool // the page is one part: the connection cannot be kept

	mu     sync.Mutex
	left   int // how many more events there can be
	events *eventDecoder
	rest   []annals.Event // that receive has received
	ended  bool           // all events were received, or are cut off, and the connection is released
	cut    bool           // the page ends behind keptBytes
	err    error          // of receive
	timer  *time.Timer    // calls receive; nil in the first part
}

// next returns the next part, in the memory of to, or what receive has received. more is false with the last part.
func (a *answer) next(to *part) (events []annals.Event, more bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return a.rest, false, a.err
	}
	size := partEvents
	if a.whole {
		size = a.left + 1
	}
	to.events, more, err = appendEvents(to.events[:0], size, a.events)
	if a.cut = a.whole && more; a.cut {
		more = false
	}
	if a.left -= len(to.events); !more {
		a.end()
	} else if a.timer == nil {
		a.timer = time.AfterFunc(maxHold, a.receive)
	}
	return to.events, more, err
}

// receive receives the events that next has not returned yet, and releases the connection.
func (a *answer) receive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.rest, a.cut, a.err = appendEvents(nil, a.left+1, a.events)
		a.end()
	}
}

// close releases the connection. Events that were not received are lost.
func (a *answer) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// end is called with the lock.
func (a *answer) end() {
	a.events.rows.Close()
	a.ended = true
	if a.timer != nil {
		a.timer.Stop()
	}
}

// part is memory for the events of one part.
type part struct{ events []annals.Event }

var parts = sync.Pool{New: func() any { return new(part) }}

// free keeps the memory for another replay, unless it is large.
func (p *part) free() {
	if n := cap(p.events); n < 2*partEvents {
		clear(p.events[:n]) // keeps no payloads
		parts.Put(p)
	}
}
