package j5ik2o_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var (
	eventColumns    = []string{"message", "deleted", "ordering", "tags", "sequence-nr", "persistence-id"}
	snapshotColumns = []string{"snapshot", "created", "annals-metadata", "sequence-nr", "persistence-id"}
	stateColumns    = []string{"payload", "serializer-id", "serializer-manifest", "revision-nr", "ordering", "tags", "deleted", "persistence-id", "annals-metadata", "annals-skipped"}
)

// FuzzRows puts invalid rows into the tables and makes all calls. Each call succeeds or returns an error that says what is wrong, without
// payloads. None panics, or returns events out of order.
func FuzzRows(f *testing.F) {
	for script := range plantest.Scripts(len(stateColumns)) {
		f.Add(script, []byte{0x0a, 0x03, 0x08, 0x04, 0x12})
	}
	f.Fuzz(func(t *testing.T, script, text []byte) {
		for _, partition := range []j5ik2o.PartitionKey{{}, j5ik2o.SequenceNumberBased} {
			fuzzRows(t, j5ik2o.Layout{ShardCount: 2, NoIndex: true, State: j5ik2o.State{Tombstones: true, TagSeparator: ","},
				Journal: j5ik2o.Journal{PartitionKey: partition}, Snapshot: j5ik2o.Snapshot{PartitionKey: partition}}, script, text)
		}
	})
}

func fuzzRows(t *testing.T, l j5ik2o.Layout, script, text []byte) {
	o := newOwner(t, l)
	told := func(what string, err error) {
		t.Helper()
		plantest.Answered(t, what, err)
	}
	event := plantest.Event(plantest.Secret)
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
	told("skip", o.offer.On(o.x).SkipTo(t.Context(), o.id, 0, 3))
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
			plantest.Spoil(row, names, "persistence-id", script, text)
			if _, err := o.x.Write(o.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: row}}}); err != nil {
				o.Fatal(err)
			}
			return
		}
	}
}
