// Package bound waits for what may not end.
package bound

import "time"

// Wait waits until fn returns, at most for d, zero for any time. It reports whether fn has returned. If not, fn continues.
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
