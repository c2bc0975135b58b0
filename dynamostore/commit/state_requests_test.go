package commit_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func number(text string) types.AttributeValue { return &types.AttributeValueMemberN{Value: text} }

func TestStateRequests(t *testing.T) {
	written := func(n annals.SeqNr) func(*plantest.Bench) {
		return func(b *plantest.Bench) {
			for after := range n {
				b.Put(after, nil)
			}
		}
	}
	withEvent := func(w *plan.StateWrite) { e := plantest.Event("e"); w.Event = &e }
	requests(t, "state-first", nil, func(b *plantest.Bench) { b.Put(0, nil) })
	requests(t, "state-update", written(2), func(b *plantest.Bench) {
		b.Put(2, func(w *plan.StateWrite) { w.Tags = []string{"red"} })
		b.Put(3, func(w *plan.StateWrite) { w.Payload = annals.Payload{SerializerID: 4} })
	})
	requests(t, "state-delete", written(2), func(b *plantest.Bench) {
		b.Put(2, func(w *plan.StateWrite) { w.Deleted = true })
		b.State()
		b.Put(3, nil)
		b.State()
	})
	requests(t, "state-again", written(6), func(b *plantest.Bench) {
		b.Put(3, nil)                                                           // remembered
		b.Put(1, nil)                                                           // may have landed
		b.Put(1, func(w *plan.StateWrite) { w.Given = false })                  // cannot have
		b.Put(3, func(w *plan.StateWrite) { w.WriteID = plantest.WriteID(99) }) // another's
		b.Put(9, nil)                                                           // too far
	})
	requests(t, "state-with-event", nil, func(b *plantest.Bench) { b.Put(0, withEvent); b.Put(1, withEvent); b.Put(1, withEvent) })
	requests(t, "state-with-event-misfit", written(1), func(b *plantest.Bench) { b.Put(1, withEvent) })
	requests(t, "state-columns", written(1), func(b *plantest.Bench) {
		b.Put(1, func(w *plan.StateWrite) {
			w.Columns = annals.Columns{"title": "Go", "seen-by": int64(3), "ratio": 0.5, "open": true, "raw": []byte{1}, "when": b.Time, "gone": nil}
		})
		b.Put(2, func(w *plan.StateWrite) { w.Columns = annals.Columns{"title": struct{}{}} })
	})
	requests(t, "state-metadata", written(1), func(b *plantest.Bench) {
		meta := func(deleted bool) func(w *plan.StateWrite) {
			return func(w *plan.StateWrite) {
				w.Metadata, w.Deleted = annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte("m")}, deleted
			}
		}
		b.Put(1, meta(false))
		b.State()
		b.Put(2, meta(true))
		b.State()
		b.Put(3, nil)
		b.State()
	})
	requests(t, "state-skip", nil, func(b *plantest.Bench) {
		b.SkipState(41, 41, 42)
		b.State()
		b.Put(40, nil) // no earlier try can have landed
		b.Put(41, nil)
		b.Put(41, nil)
		b.SkipState(41)
	})
	requests(t, "state-skip-written", written(1), func(b *plantest.Bench) {
		b.SkipState(1)
		b.Put(1, func(w *plan.StateWrite) { w.Deleted = true })
		b.SkipState(2)
	})
	requests(t, "state-at-the-limit", nil, func(b *plantest.Bench) {
		sized := func(n int) func(*plan.StateWrite) { return func(w *plan.StateWrite) { w.Data = make([]byte, n) } }
		b.Put(0, sized(plan.MaxItemBytes-stateFrame+1)) // no request
		b.Put(0, sized(plan.MaxItemBytes-stateFrame))
	})
}

// stateFrame is the size of the item of a state of id without its data, with four writes remembered.
const stateFrame = 160
