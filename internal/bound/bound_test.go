package bound

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		for _, c := range []struct {
			d    time.Duration
			want bool
		}{{0, true}, {2 * time.Second, true}, {time.Second / 2, false}} {
			if got := Wait(c.d, func() { time.Sleep(time.Second); ended.Add(1) }); got != c.want {
				t.Errorf("a second within %v: got %v, want %v", c.d, got, c.want)
			}
		}
		time.Sleep(time.Second)
		if n := ended.Load(); n != 3 {
			t.Errorf("%d functions have ended, want 3", n)
		}
	})
}
