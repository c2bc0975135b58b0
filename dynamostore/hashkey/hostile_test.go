package hashkey_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/hashkey"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// numbers that DynamoDB stores.
var numbers = []string{"0", "1", "2", "3", "-1", "1.5", "31", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e30", "1e-30"}

const secret = "s3cret"

// attributes are those that hostile items have in other forms.
var attributes = []string{"payload", "deleted", "confirmations", "sequenceNr"}

// hostile replaces, adds or removes attributes of an item. Each byte of script says what to do with one of them. New texts and bytes are
// text.
func hostile(it plan.Item, script, text []byte) {
	for i, name := range attributes {
		if i >= len(script) {
			break
		}
		switch what := script[i]; what % 9 {
		case 0: // as it was
		case 1:
			delete(it, name)
		case 2:
			it[name] = plan.S(string(text))
		case 3:
			it[name] = plan.B(text)
		case 4:
			it[name] = plan.Bool(what > 127)
		case 5:
			it[name] = &types.AttributeValueMemberNULL{Value: true}
		case 6:
			it[name] = &types.AttributeValueMemberSS{Value: []string{secret, string(text)}}
		case 7:
			it[name] = &types.AttributeValueMemberM{Value: plan.Item{"a": plan.B(text)}}
		case 8:
			it[name] = &types.AttributeValueMemberN{Value: numbers[int(what)/9%len(numbers)]}
		}
	}
}

// FuzzItems puts an invalid item into the table and makes all calls. Each call succeeds or returns an error that says what is wrong, without
// payloads. None panics, or returns events out of order.
func FuzzItems(f *testing.F) {
	for _, key := range []string{"journal-P-a-1", "journal-P-a-2", "journal-P-a-4", "journal-SH-a-0", "journal-SL-a-1"} {
		for i := range 9 {
			for n := range len(attributes) {
				script := make([]byte, n+1)
				script[n] = byte(i)
				f.Add(key, script, []byte{0x0a, 0x03, 0x08, 0x04, 0x12})
			}
		}
		for i := range numbers {
			f.Add(key, []byte{0, 0, 0, byte(9*i + 8)}, []byte(secret))
		}
	}
	f.Add("journal-P-a-", []byte{2, 2, 2, 2}, []byte(secret))
	f.Add("", []byte{2}, []byte("true"))
	f.Fuzz(func(t *testing.T, key string, script, text []byte) {
		for _, permanent := range []bool{false, true} {
			fuzzItems(t, permanent, key, script, text)
		}
	})
}

func fuzzItems(t *testing.T, permanent bool, key string, script, text []byte) {
	b := newBench(t, hashkey.Layout{SequenceShards: 2, Permanent: permanent})
	ctx := t.Context()
	told := func(what string, err error) bool {
		t.Helper()
		e := (*annals.Error)(nil)
		switch {
		case err == nil:
			return true
		case !errors.As(err, &e) || !slices.Contains([]error{annals.ErrCorrupt, annals.ErrInvalid, annals.ErrConflict, annals.ErrTruncated}, e.Kind):
			t.Errorf("%s: %v", what, err)
		case strings.Contains(err.Error(), secret) && !strings.Contains(key, secret):
			t.Errorf("%s: the error repeats a payload: %v", what, err)
		}
		return false
	}
	for n := range annals.SeqNr(3) {
		_, err := b.Journal.Append(ctx, annals.Commit{ID: "a", After: n, WriteID: plantest.WriteID(byte(n)), Events: []annals.NewEvent{plantest.Event(secret)}})
		b.must(err)
	}
	b.deleteTo("a", 1, false)
	it := b.item(key)
	if it == nil {
		it = plan.Item{"key": plan.S(key)}
	}
	hostile(it, script, text)
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
	for m, err := range hashkey.Messages(ctx, b, "a", 1, 20) {
		if told("messages", err) && (m.SeqNr <= before || m.ID != "a") {
			t.Errorf("message %d of %q after %d", m.SeqNr, m.ID, before)
		}
		before = m.SeqNr
	}
	_, err = hashkey.Lowest(ctx, b, "a")
	told("lowest", err)
	told("append", b.append("a", 2, 3))
	told("append", b.append("a", 4, 5))
	told("delete", hashkey.Delete(ctx, b, "a", permanent, 2))
	if !told("last number", err) {
		return
	}
	if last, err := b.Journal.LastSeqNr(ctx, "a"); err == nil && last < 100 { // a delete reads up to the last number
		told("confirm", b.confirmed(1))
		told("delete to", b.Journal.DeleteTo(ctx, "a", annals.MaxSeqNr))
		told("skip", b.SkipTo(ctx, "a", 3))
	}
}

// confirmed confirms event n, unless it has confirmations in another form, which the service refuses to add to.
func (b bench) confirmed(n annals.SeqNr) error {
	if _, ok := b.item("journal-P-a-1")["confirmations"].(*types.AttributeValueMemberSS); !ok {
		return nil
	}
	return hashkey.Confirm(b.Context(), b, "a", hashkey.Confirmation{SeqNr: n, Channel: "c"})
}
