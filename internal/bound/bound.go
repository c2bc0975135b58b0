// Package bound waits for a function, with a limit of time.
package bound

import "time"

// Wait runs fn and waits until it returns, at most for d; zero is no limit. It reports whether fn has returned. If not, fn continues in a
// goroutine.
func Wait(d time.Duration, fn func()) bool {
	if d <= 0 {
		fn()
		return true
	}
	done := make(chan struct{})
	go func() {
		fn()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
