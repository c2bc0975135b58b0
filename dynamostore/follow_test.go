package dynamostore_test

import (
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/clock"
)

// When the clock of a follower jumps forward, its watermark does not.
func TestWatermarkWhileTheClockJumps(t *testing.T) {
	t.Parallel()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	for _, back := range []time.Duration{0, -time.Hour, 0} {
		dynamostore.SetBack(s, back)
		at, err := s.Query().Watermark(t.Context())
		want := time.Now().Add(-s.Capabilities().Lateness)
		if d := at.Sub(want); err != nil || d > clock.Step || d < -time.Minute {
			t.Errorf("the clock is %v ahead: the watermark is %v, want %v; %v", -back, at, want, err)
		}
	}
}
