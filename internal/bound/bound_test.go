package bound

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		for _, c := range []struct {
			d    time.Duration
			want bool
		}{{0, true}, {2 * time.Second, true}, {time.Second / 2, false}} {
			if got := Wait(c.d, func() { time.Sleep(time.Second); ended++ }); got != c.want {
				t.Errorf("a second within %v: got %v, want %v", c.d, got, c.want)
			}
		}
		time.Sleep(time.Second)
		if ended != 3 {
			t.Errorf("%d functions have ended, want 3", ended)
		}
	})
}
