package sharded_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/sharded"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// numbers that DynamoDB stores.
var numbers = []string{"0", "1", "2", "3", "-1", "1.5", "31", "2147483648", "4294967327", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e30", "1e-30"}

const secret = "s3cret"

// hostile replaces or removes the attributes names of a row. Each byte of script says what to do with one of them. New texts and bytes are
// text.
func hostile(row plan.Item, names []string, script, text []byte) plan.Item {
	for i, name := range names {
		if i >= len(script) {
			break
		}
		switch what := script[i]; what % 9 {
		case 0: // as it was
		case 1:
			delete(row, name)
		case 2:
			if row[name] = plan.S(string(text)); name == "persistence-id" {
				row[name] = plan.S("another id") // which errors name
			}
		case 3:
			row[name] = plan.B(text)
		case 4:
			row[name] = plan.Bool(what > 127)
		case 5:
			row[name] = &types.AttributeValueMemberNULL{Value: true}
		case 6:
			row[name] = &types.AttributeValueMemberL{Value: []types.AttributeValue{plan.S(secret)}}
		case 7:
			row[name] = &types.AttributeValueMemberM{Value: plan.Item{"a": plan.B(text)}}
		case 8:
			row[name] = &types.AttributeValueMemberN{Value: numbers[int(what)/9%len(numbers)]}
		}
	}
	return row
}

var (
	eventColumns    = []string{"message", "deleted", "ordering", "tags", "sequence-nr", "persistence-id"}
	snapshotColumns = []string{"snapshot", "created", "annals-metadata", "sequence-nr", "persistence-id"}
	stateColumns    = []string{"payload", "serializer-id", "serializer-manifest", "revision-nr", "ordering", "tags", "deleted", "persistence-id", "annals-metadata", "annals-skipped"}
)

// FuzzRows puts invalid rows into the tables and makes all calls. Each call succeeds or returns an error that says what is wrong, without
// payloads. None panics, or returns events out of order.
func FuzzRows(f *testing.F) {
	for i := range 9 {
		for n := range len(stateColumns) {
			script := make([]byte, n+1)
			script[n] = byte(i)
			f.Add(script, []byte{0x0a, 0x03, 0x08, 0x04, 0x12})
		}
	}
	for i := range numbers {
		for n := range len(stateColumns) {
			script := make([]byte, n+1)
			script[n] = byte(9*i + 8)
			f.Add(script, []byte(secret))
		}
	}
	f.Fuzz(func(t *testing.T, script, text []byte) {
		for _, partition := range []sharded.PartitionKey{sharded.PersistenceIDBased, sharded.SequenceNumberBased} {
			fuzzRows(t, sharded.Layout{ShardCount: 2, NoIndex: true, State: sharded.State{Tombstones: true, TagSeparator: ","},
				Journal: sharded.Journal{PartitionKey: partition}, Snapshot: sharded.Snapshot{PartitionKey: partition}}, script, text)
		}
	})
}

func fuzzRows(t *testing.T, l sharded.Layout, script, text []byte) {
	o := newOwner(t, l)
	told := func(what string, err error) {
		t.Helper()
		e := (*annals.Error)(nil)
		if err == nil {
			return
		}
		if !errors.As(err, &e) || !errors.Is(err, annals.ErrCorrupt) && !errors.Is(err, annals.ErrInvalid) && !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrTruncated) {
			t.Errorf("%s: %v", what, err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats a payload: %v", what, err)
		}
	}
	event := plantest.Event(secret)
	event.Tags = []string{"red"}
	for n := range annals.SeqNr(3) {
		if _, err := o.offer.On(o.x).Journal.Append(t.Context(), annals.Commit{ID: o.id, After: n, WriteID: plantest.WriteID(byte(n)), Events: []annals.NewEvent{event}}); err != nil {
			t.Fatal(err)
		}
		if err := o.offer.On(o.x).Snapshots.Save(t.Context(), annals.Snapshot{ID: o.id, SeqNr: n + 1, Time: o.x.Now(), Payload: event.Payload, Metadata: event.Payload}); err != nil {
			t.Fatal(err)
		}
	}
	write := plan.StateWrite{StateWrite: annals.StateWrite{ID: o.id, Payload: event.Payload, Tags: event.Tags, Metadata: event.Payload}, Time: o.x.Now()}
	if _, err := o.offer.States.Write(t.Context(), o.x, write); err != nil {
		t.Fatal(err)
	}
	o.spoil("Journal", eventColumns, script, text, "2")
	o.spoil("Snapshot", snapshotColumns, script, text, "3")
	o.spoil("State", stateColumns, script, text, "")

	told("check", o.offer.Check(t.Context(), o.x, false))
	var before annals.SeqNr
	for e, err := range o.offer.On(o.x).Journal.Replay(t.Context(), o.id, 1, annals.MaxSeqNr) {
		if told("replay", err); err == nil && (e.SeqNr <= before || e.ID != o.id) {
			t.Errorf("event %d of %q after %d", e.SeqNr, e.ID, before)
		}
		before = e.SeqNr
	}
	last, err := o.offer.On(o.x).Journal.LastSeqNr(t.Context(), o.id)
	if told("last number", err); last < 0 {
		t.Errorf("the last number is %d", last)
	}
	_, err = o.offer.On(o.x).Recover(t.Context(), o.id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	told("recover", err)
	for _, c := range []annals.SnapshotCriteria{{}, {MaxSeqNr: 3}, {MaxTime: o.x.Now()}} {
		s, ok, err := o.offer.On(o.x).Snapshots.Latest(t.Context(), o.id, c)
		if told("newest snapshot", err); ok && (s.SeqNr < 0 || s.ID != o.id) {
			t.Errorf("snapshot %d of %q", s.SeqNr, s.ID)
		}
	}
	_, err = o.offer.On(o.x).Journal.Append(t.Context(), annals.Commit{ID: o.id, After: 1, WriteID: plantest.WriteID(1), Events: []annals.NewEvent{event}})
	told("append", err)
	st, ok, err := o.offer.States.Get(t.Context(), o.x, o.id)
	if told("get state", err); ok && (st.Revision < 0 || st.ID != o.id) {
		t.Errorf("revision %d of %q", st.Revision, st.ID)
	}
	write.After = 1
	_, err = o.offer.States.Write(t.Context(), o.x, write)
	told("write state", err)
	told("skip state", o.offer.SkipStateTo(t.Context(), o.x, o.id, 3))
	told("delete events", o.offer.On(o.x).Journal.DeleteTo(t.Context(), o.id, annals.MaxSeqNr))
	told("skip", o.offer.On(o.x).SkipTo(t.Context(), o.id, 3))
	told("delete snapshots", o.offer.On(o.x).Snapshots.Delete(t.Context(), o.id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}))
}

// spoil makes the row of a number hostile; "" is any.
func (o owner) spoil(table string, names []string, script, text []byte, number string) {
	o.Helper()
	rows, err := o.x.Scan(o.Context(), table, 10)
	if err != nil {
		o.Fatal(err)
	}
	for _, row := range rows {
		if n, _ := row["sequence-nr"].(*types.AttributeValueMemberN); number == "" || n != nil && n.Value == number {
			if _, err := o.x.Write(o.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: hostile(row, names, script, text)}}}); err != nil {
				o.Fatal(err)
			}
			return
		}
	}
}
