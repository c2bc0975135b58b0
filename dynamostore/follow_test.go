package dynamostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/clock"
	"github.com/annals-go/annals/internal/followtest"
)

// Beside writers, workers that begin anew get every event once, in order, also those that the watermark has not passed.
func TestFollow(t *testing.T) {
	t.Parallel()
	s, _ := openIndexed(t, client(t), dynamostore.Options{})
	followtest.Feeds(t, s, func(ctx context.Context, w *followtest.Writer) error {
		for range 25 {
			if err := w.Append(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

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
