package akka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// attributes are those of events and markers that a script changes, in this order.
var attributes = []string{attrSeq, attrIndex, attrCount, attrEvent, attrSerializer, attrManifest, attrWriter, attrAdapter, attrID, attrPay}

// FuzzItems changes an item of the table and makes all calls. Each call succeeds or returns an error that names the item, without its payload.
// None panics, runs forever, or returns events out of order.
func FuzzItems(f *testing.F) {
	for script := range plantest.Scripts(len(attributes)) {
		for item := range byte(3) {
			f.Add(script, item, script[len(script)-1]%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, script []byte, item byte, old bool) {
		layout := Layout{Journal: Journal{SequenceShards: 2, Old: old, IDIndex: "ids"}}
		offer, err := layout.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		c := offer.On(x)
		for _, commit := range []annals.Commit{{After: 98, Events: make([]annals.NewEvent, 1)}, {After: 99, Events: make([]annals.NewEvent, 3)}, {After: 102, Events: make([]annals.NewEvent, 1)}} {
			for i := range commit.Events {
				commit.Events[i] = plantest.Event(plantest.Secret)
			}
			commit.ID, commit.WriteID = entityID, annals.WriteID{byte(commit.After)}
			if _, err := c.Journal.Append(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Journal.DeleteTo(t.Context(), entityID, 99); err != nil {
			t.Fatal(err)
		}
		keys := []string{"journal-P-order-1-1", "journal-SH-order-1-1", "journal-SL-order-1-1"}
		for _, it := range x.Items(journalTable) {
			if par := plan.KeyText(it[attrPar]); par == keys[int(item)%len(keys)] && plan.KeyText(it[attrNum]) <= "1" {
				it = maps.Clone(it)
				plantest.Spoil(it, attributes, attrID, script, []byte(plantest.Secret))
				if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: journalTable, Put: it}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		told := func(what string, err error) {
			t.Helper()
			plantest.Answered(t, what, err)
			if errors.Is(err, annals.ErrCorrupt) {
				if text := err.Error(); !strings.Contains(text, journalTable) || !strings.Contains(text, "journal-") && !errors.Is(err, errEmpty) {
					t.Errorf("%s: the error does not name the item: %v", what, err)
				}
			}
		}
		told("check", offer.Check(t.Context(), x, false))
		c = offer.On(x)
		for _, from := range []annals.SeqNr{1, 101} {
			before := annals.SeqNr(0)
			for e, err := range c.Journal.Replay(t.Context(), entityID, from, annals.MaxSeqNr) {
				if told("replay", err); err == nil && (e.SeqNr <= before || e.ID != entityID) {
					t.Errorf("event %d of %q after %d", e.SeqNr, e.ID, before)
				}
				before = e.SeqNr
			}
		}
		last, err := c.Journal.LastSeqNr(t.Context(), entityID)
		if told("last number", err); last < 0 {
			t.Errorf("the last number is %d", last)
		}
		_, err = c.Recover(t.Context(), entityID, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		told("recover", err)
		_, err = c.Journal.Append(t.Context(), annals.Commit{ID: entityID, After: 99, WriteID: annals.WriteID{99}, Events: []annals.NewEvent{plantest.Event(plantest.Secret)}})
		told("append", err)
		for _, err := range c.Queries.IDs(t.Context(), "", "") {
			told("ids", err)
		}
		_, err = c.Journal.(*journal).repair(t.Context(), entityID)
		told("repair", err)
		if last < 1_000_000 { // ListAll and deletes read many more groups before they take a marker for wrong
			_, _, _, err = c.Journal.(*journal).list(t.Context(), entityID)
			told("list all", err)
			told("delete", c.Journal.DeleteTo(t.Context(), entityID, annals.MaxSeqNr))
			told("purge", c.Journal.(*journal).purge(t.Context(), entityID))
		}
	})
}

// A marker far above all events is an error of a replay, which would read empty groups for years.
func TestMarkerFarAbove(t *testing.T) {
	t.Parallel()
	x, j := filled(t, 5, 1)
	for _, seq := range []annals.SeqNr{1_000_000, 9223372036854775800} {
		if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{j.putHigh(entityID, seq)}}); err != nil {
			t.Fatal(err)
		}
		var got []annals.SeqNr
		var failed error
		for e, err := range j.Replay(t.Context(), entityID, 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				got = append(got, e.SeqNr)
			}
		}
		if len(got) != 5 || !errors.Is(failed, annals.ErrCorrupt) {
			t.Errorf("a marker of %d: replayed %v, %v", seq, got, failed)
		}
	}
	if _, _, _, err := j.list(t.Context(), entityID); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("listed: %v", err)
	}
	// Deleted events are no reason to stop.
	if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{j.putLow(entityID, 999_990)}}); err != nil {
		t.Fatal(err)
	}
	for e, err := range j.Replay(t.Context(), entityID, 999_980, 1_000_010) {
		t.Errorf("event %d, %v", e.SeqNr, err)
	}
}

// Items under a key of the entity that belong to other ids or numbers.
func TestForeignItems(t *testing.T) {
	t.Parallel()
	key := plan.Item{"par": plan.S("journal-P-order-1-0"), "num": plan.N(2)}
	with := func(name string, v types.AttributeValue) func(it plan.Item) {
		return func(it plan.Item) { it[name] = v }
	}
	for name, c := range map[string]struct {
		change  func(it plan.Item)
		refused error // of an append at the number
	}{
		"another id":     {with(attrID, plan.S("order-2")), annals.ErrInvalid},
		"another number": {with(attrSeq, plan.N(3)), annals.ErrConflict},
		"another id, old format": {func(it plan.Item) {
			replace(it, akkawire.Record{ID: "order-2", SeqNr: 2, Payload: plantest.Event("e").Payload})
		}, annals.ErrInvalid},
		"another number, old": {func(it plan.Item) {
			replace(it, akkawire.Record{ID: entityID, SeqNr: 3, Payload: plantest.Event("e").Payload})
		}, annals.ErrConflict},
		"an index above the count":  {func(it plan.Item) { it[attrIndex], it[attrCount] = plan.N(2), plan.N(1) }, annals.ErrConflict},
		"an index above its number": {func(it plan.Item) { it[attrIndex], it[attrCount] = plan.N(3), plan.N(4) }, annals.ErrConflict},
		"a count without an index":  {with(attrCount, plan.N(4)), annals.ErrConflict},
		"a count above all numbers": {func(it plan.Item) { it[attrIndex], it[attrCount] = plan.N(0), plan.N(annals.MaxSeqNr) }, annals.ErrConflict},
	} {
		x, j := filled(t, 3, 1)
		it, _, _ := x.Get(t.Context(), plan.Get{Table: journalTable, Key: key})
		it = maps.Clone(it)
		c.change(it)
		if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: journalTable, Put: it}}}); err != nil {
			t.Fatal(err)
		}
		var got []annals.SeqNr
		var failed error
		for e, err := range j.Replay(t.Context(), entityID, 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				got = append(got, e.SeqNr)
			}
		}
		if !errors.Is(failed, annals.ErrCorrupt) || len(got) > 1 || !strings.Contains(fmt.Sprint(failed), `num "2", par "journal-P-order-1-0"`) {
			t.Errorf("%s: replayed %v, %v", name, got, failed)
		}
		_, err := j.Append(t.Context(), annals.Commit{ID: entityID, After: 1, WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{plantest.Event("e")}, 1)})
		if !errors.Is(err, c.refused) {
			t.Errorf("%s: an append at its number: %v, want %v", name, err, c.refused)
		}
	}
}

// replace makes an item one of the old format.
func replace(it plan.Item, r akkawire.Record) {
	for _, name := range []string{attrID, attrSeq, attrEvent, attrSerializer, attrManifest, attrWriter} {
		delete(it, name)
	}
	it[attrPay] = plan.B(akkawire.Akka24.Append(nil, r))
}
