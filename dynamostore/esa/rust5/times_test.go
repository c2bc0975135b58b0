package rust5_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// NewEvent.Time is stored in nanoseconds, from the first to the last one of 64 bits.
func TestTimes(t *testing.T) {
	t.Parallel()
	least, most := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	for _, c := range []struct {
		at    time.Time
		valid bool
	}{
		{least.Add(-1), false},
		{least, true},
		{time.Unix(0, -1), true},
		{time.Unix(0, 123_456_789), true},
		{most, true},
		{most.Add(1), false},
	} {
		offer, err := esa.Layout{Peer: esa.Rust5, WriteIDs: true}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		j := offer.On(x).Journal
		e := plantest.Event("a")
		e.Time = c.at
		commit := annals.Commit{ID: "Thread|1", WriteID: annals.NewWriteID(), Events: []annals.NewEvent{e}}
		r, err := j.Append(t.Context(), commit)
		if !c.valid {
			if !errors.Is(err, annals.ErrInvalid) || len(x.Items("journal")) > 0 {
				t.Errorf("%v: got %v, want ErrInvalid and nothing written", c.at, err)
			}
			continue
		}
		again, errAgain := j.Append(t.Context(), commit)
		if err != nil || errAgain != nil || r.Time != c.at.UTC() || again.Time != c.at.UTC() || !again.Repeated {
			t.Errorf("%v: got receipts %v and %v, errors %v and %v", c.at, r, again, err, errAgain)
		}
		for e, err := range j.Replay(t.Context(), "Thread|1", 1, annals.MaxSeqNr) {
			if err != nil || e.Time != c.at.UTC() {
				t.Errorf("%v: got %v, %v from a replay", c.at, e.Time, err)
			}
		}
	}
}
