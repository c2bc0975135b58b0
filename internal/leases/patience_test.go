package leases

import (
	"testing"
	"time"
)

// The lease is twice as long after each mistake, and becomes shorter after a time that gets longer with the mistakes. It is never longer than
// the longest, and never shorter than the option. In the end all mistakes are forgotten.
func TestPatience(t *testing.T) {
	t.Parallel()
	const second = time.Second
	var p Patience
	now := time.Now()
	check := func(mistake bool, after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		var lost time.Time
		if mistake {
			lost = now.Add(1)
		}
		if got := p.Lease(second, lost, now); got != want {
			t.Errorf("the lease is %v, want %v: %+v", got, want, p)
		}
	}
	check(false, 0, second)
	check(true, second, 2*second)
	check(false, second, 2*second)
	check(true, second/2, 4*second)
	if got := p.Lease(second, now.Add(-second), now); got != 4*second {
		t.Errorf("after the loss of a work that began before, the lease is %v", got)
	}
	check(false, 4*second-1, 4*second)
	check(false, 1, 2*second)
	check(false, 4*second, second)
	check(true, 0, 2*second)
	check(false, 8*second-1, 2*second)
	check(false, 1, second)
	check(false, calm-1, second)
	check(true, 0, 2*second)
	check(false, 16*second, second)
	check(false, calm, second)
	check(true, 0, 2*second)
	check(false, 2*second, second)
	for range 100 {
		now = now.Add(second)
		p.Lease(second, now.Add(1), now)
	}
	check(false, 0, longest)
	for range p.longer {
		now = now.Add(calm)
		p.Lease(second, time.Time{}, now)
	}
	check(false, 0, second)
	if got := p.Lease(2*longest, now.Add(1), now); got != 2*longest {
		t.Errorf("a lease of %v has become %v", 2*longest, got)
	}
}
