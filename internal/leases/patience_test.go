package leases

import (
	"testing"
	"time"
)

// The lease is twice as long after each mistake, and becomes shorter after a time that gets longer with the mistakes. It is never longer than twice
// the longest, and never shorter than the option.
func TestPatience(t *testing.T) {
	t.Parallel()
	const second = time.Second
	var p Patience
	now := time.Now()
	check := func(mistake bool, after, want time.Duration) {
		t.Helper()
		now, p.mistake = now.Add(after), mistake
		if got := p.Lease(second, now); got != want {
			t.Errorf("the lease is %v, want %v: %+v", got, want, p)
		}
	}
	check(false, 0, second)
	check(true, second, 2*second)
	check(false, second, 2*second)
	check(true, second/2, 4*second)
	check(false, 4*second-1, 4*second)
	check(false, 1, 2*second)
	check(false, 4*second, second)
	check(false, time.Hour, second)
	check(true, 0, 2*second)
	check(false, 8*second-1, 2*second)
	check(false, 1, second)
	for range 100 {
		p.Mistake(now.Add(1))
		p.Lease(second, now)
	}
	if got := p.Lease(second, now); got < longest || got >= 2*longest {
		t.Errorf("after a hundred mistakes the lease is %v", got)
	}
	for range 16 {
		now = now.Add(second << 16)
		p.Lease(second, now)
	}
	check(false, 0, second)
	p.Mistake(now.Add(1))
	if got := p.Lease(2*longest, now); got != 2*longest {
		t.Errorf("a lease of %v has become %v", 2*longest, got)
	}
}
