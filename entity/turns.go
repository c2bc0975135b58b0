package entity

import "time"

// pause has the commands of e wait for so long, undecided. Their callers can withdraw them, and an Evict is executed.
func (e *entity[C, S, R]) pause(wait time.Duration) {
	if wait <= 0 {
		return
	}
	e.mu.Lock()
	e.pausing = true
	e.mu.Unlock()
	if e.runtime.base.Err() != nil { // halt may not have seen the pause
		e.resume()
		return
	}
	time.AfterFunc(wait, e.resume)
}

// resume ends a pause.
func (e *entity[C, S, R]) resume() {
	e.mu.Lock()
	e.pausing = false
	work := e.startWork()
	e.mu.Unlock()
	if work {
		e.begin()
	}
}

// waits reports whether commands wait for the end of a pause. e.mu is held.
func (e *entity[C, S, R]) waits() bool { return e.pausing && e.mailbox.len() > 0 }
