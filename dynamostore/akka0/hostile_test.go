package akka0_test

import (
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// attributes are those that hostile items have in other forms.
var attributes = []string{"payload", "deleted", "confirmations", "sequenceNr"}

// FuzzItems puts an invalid item into the table and makes all calls. Each call succeeds or returns an error that says what is wrong, without
// payloads. None panics, or returns events out of order.
func FuzzItems(f *testing.F) {
	for _, key := range []string{"journal-P-a-1", "journal-P-a-2", "journal-P-a-4", "journal-SH-a-0", "journal-SL-a-1"} {
		for script := range plantest.Scripts(len(attributes)) {
			f.Add(key, script, []byte{0x0a, 0x03, 0x08, 0x04, 0x12})
		}
	}
	f.Add("journal-P-a-", []byte{2, 2, 2, 2}, []byte(plantest.Secret))
	f.Add("", []byte{2}, []byte("true"))
	f.Fuzz(func(t *testing.T, key string, script, text []byte) {
		if strings.Contains(key, plantest.Secret) {
			return // errors name keys
		}
		for _, permanent := range []bool{false, true} {
			fuzzItems(t, permanent, key, script, text)
		}
	})
}

func fuzzItems(t *testing.T, permanent bool, key string, script, text []byte) {
	b := newBench(t, akka0.Layout{SequenceShards: 2, Permanent: permanent})
	ctx := t.Context()
	told := func(what string, err error) bool {
		t.Helper()
		return plantest.Answered(t, what, err)
	}
	for n := range annals.SeqNr(3) {
		_, err := b.Journal.Append(ctx, annals.Commit{ID: "a", After: n, WriteID: plantest.WriteID(byte(n)), Events: []annals.NewEvent{plantest.Event(plantest.Secret)}})
		b.must(err)
	}
	b.deleteTo("a", 1, false)
	it := b.item(key)
	if it == nil {
		it = plan.Item{"key": plan.S(key)}
	}
	plantest.Spoil(it, attributes, "", script, text)
	b.put(it)

	told("check", b.offer.Check(ctx, b.x, false))
	_, err := b.Journal.LastSeqNr(ctx, "a")
	told("last number", err)
	var before annals.SeqNr
	for e, err := range b.Journal.Replay(ctx, "a", 1, 20) {
		if told("replay", err) && (e.SeqNr <= before || e.ID != "a") {
			t.Errorf("event %d of %q after %d", e.SeqNr, e.ID, before)
		}
		before = e.SeqNr
	}
	before = 0
	for m, err := range akka0.Messages(ctx, plantest.Store(b), "a", 1, 20) {
		if told("messages", err) && (m.SeqNr <= before || m.ID != "a") {
			t.Errorf("message %d of %q after %d", m.SeqNr, m.ID, before)
		}
		before = m.SeqNr
	}
	_, err = akka0.Lowest(ctx, plantest.Store(b), "a")
	told("lowest", err)
	told("append", b.append("a", 2, 3))
	told("append", b.append("a", 4, 5))
	told("delete", akka0.Delete(ctx, plantest.Store(b), "a", permanent, 2))
	if !told("last number", err) {
		return
	}
	if last, err := b.Journal.LastSeqNr(ctx, "a"); err == nil && last < 100 { // a delete reads up to the last number
		told("confirm", b.confirmed(1))
		told("delete to", b.Journal.DeleteTo(ctx, "a", annals.MaxSeqNr))
		told("skip", b.SkipTo(ctx, "a", 0, 3))
	}
}

// confirmed confirms event n, unless it has confirmations in another form, which the service refuses to add to.
func (b bench) confirmed(n annals.SeqNr) error {
	if _, ok := b.item("journal-P-a-1")["confirmations"].(*types.AttributeValueMemberSS); !ok {
		return nil
	}
	return akka0.Confirm(b.Context(), plantest.Store(b), "a", map[annals.SeqNr][]string{n: {"c"}})
}
