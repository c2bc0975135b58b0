package esa

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// NewEvent.Time is stored in the unit of the table, rounded down, and in the library's payload. A time for which there is no place is ErrInvalid.
func TestTimes(t *testing.T) {
	t.Parallel()
	const nano, milli, second = time.Nanosecond, time.Millisecond, time.Second
	const none = time.Duration(-1) // Times is not claimed, and events have no time
	moment := time.Date(1969, 12, 31, 23, 59, 58, 123_456_789, time.FixedZone("east", 3600))
	least, most := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	for _, c := range []struct {
		layout Layout
		at     time.Time
		want   time.Duration // the unit; 0 is ErrInvalid, and none no time
	}{
		{Layout{Peer: Go}, moment, milli},
		{Layout{Peer: JS}, moment, none},
		{Layout{Peer: JS3}, moment, milli},
		{Layout{Peer: Rust}, moment, milli},
		{Layout{Peer: Java}, moment, milli},
		{Layout{Peer: Seed}, moment, milli},
		{Layout{Peer: Rust3}, moment, nano},
		{Layout{Journal: Journal{OccurredAt: second}}, moment, second},
		{Layout{Journal: Journal{OccurredAt: nano}}, moment, nano},
		{Layout{Journal: Journal{OccurredAt: time.Microsecond}}, moment, time.Microsecond},
		{Layout{Peer: Rust3}, least, nano},
		{Layout{Peer: Rust3}, least.Add(-1), 0},
		{Layout{Peer: Rust3}, most, nano},
		{Layout{Peer: Rust3}, most.Add(1), 0},
		{Layout{}, most.Add(1), milli},
		{Layout{}, time.UnixMilli(mostMillis + 1).Add(-1), milli},
		{Layout{}, time.UnixMilli(mostMillis + 1), 0},
		{Layout{Journal: Journal{OccurredAt: second}}, time.Date(9999, 12, 31, 23, 59, 59, 1, time.UTC), second},
	} {
		l := c.layout
		l.Shards, l.WriteIDs = 1, true
		offer, err := l.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		j := offer.On(x).Journal
		payload := annals.Payload{SerializerID: jsonSerializer, Manifest: "Added", Data: []byte("{}")}
		commit := annals.Commit{ID: "Thread|1", WriteID: annals.NewWriteID(), Events: []annals.NewEvent{{Payload: payload}, {Payload: payload, Time: c.at}},
			Snapshot: &annals.Snapshot{ID: "Thread|1", SeqNr: 2, Payload: annals.Payload{SerializerID: jsonSerializer, Manifest: "Thread", Data: []byte("{}")}}}
		r, err := j.Append(t.Context(), commit)
		if c.want == 0 {
			if !errors.Is(err, annals.ErrInvalid) || len(x.Items("journal")) > 0 {
				t.Errorf("%v of %+v: got %v, want ErrInvalid and nothing written", c.at, c.layout, err)
			}
			continue
		}
		want := time.Time{}
		if c.want > 0 {
			want = c.at.UTC().Truncate(c.want)
		}
		again, errAgain := j.Append(t.Context(), commit)
		if err != nil || errAgain != nil || r.Time != want || again.Time != want || !again.Repeated {
			t.Errorf("%v of %+v: got receipts %v and %v, errors %v and %v; want the time %v", c.at, c.layout, r, again, err, errAgain, want)
		}
		var got []time.Time
		var data string
		for e, err := range j.Replay(t.Context(), "Thread|1", 1, annals.MaxSeqNr) {
			if err != nil {
				t.Fatal(err)
			}
			got, data = append(got, e.Time), string(e.Data)
		}
		if len(got) != 2 || c.want > 0 && got[0].Year() != x.Time.Year() || got[1] != want {
			t.Errorf("%v of %+v: got the times %v, want the clock's and %v", c.at, c.layout, got, want)
		}
		if text := c.at.UTC().Format(isoMillis); c.layout.Peer != Rust3 && !strings.Contains(data, text) {
			t.Errorf("%v of %+v: the payload %s does not have %s", c.at, c.layout, data, text)
		}
		if err := offer.Check(t.Context(), x, false); err != nil {
			t.Errorf("open after %v: %v", c.at, err)
		}
	}
	if _, err := (Layout{Shards: 1, Journal: Journal{OccurredAt: time.Minute}}).Plan(); err == nil {
		t.Error("minutes as the unit of times: got no error")
	}
}
