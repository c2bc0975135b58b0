package rust5_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const thing = annals.PersistenceID("Thing|1")

// full returns a bench with an item of each kind, with all attributes.
func full(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, esa.Layout{Peer: esa.Rust5, WriteIDs: true, Snapshot: esa.Snapshot{Keep: 2}})
	c := annals.Commit{ID: thing, Events: events(3), Snapshot: &annals.Snapshot{ID: thing, SeqNr: 3, Payload: annals.Payload{SerializerID: 4, Data: []byte("s")}}}
	for i := range c.Events {
		c.Events[i].SerializerID = 4
	}
	if _, err := b.append(c); err != nil {
		t.Fatal(err)
	}
	if err := b.Journal.DeleteTo(t.Context(), thing, 1); err != nil {
		t.Fatal(err)
	}
	return b
}

// calls are all calls that read items.
func (b *bench) calls() map[string]error {
	all := map[string]error{}
	_, all["append"] = b.append(annals.Commit{ID: thing, After: 1, Events: events(1)})
	_, all["last"] = b.Journal.LastSeqNr(b.Context(), thing)
	_, all["replay"] = b.replay(thing, 1, annals.MaxSeqNr)
	_, all["recover"] = b.recover(thing)
	_, _, all["latest"] = b.Snapshots.Latest(b.Context(), thing, annals.SnapshotCriteria{})
	_, _, all["latest copy"] = b.Snapshots.Latest(b.Context(), thing, annals.SnapshotCriteria{MaxTime: b.Time.AddDate(-20, 0, 0)})
	all["retain"] = esa.Retain(b.Context(), plantest.Store(b), thing)
	all["delete snapshots"] = b.Snapshots.Delete(b.Context(), thing, annals.SnapshotCriteria{MaxSeqNr: 1})
	all["delete"] = b.Journal.DeleteTo(b.Context(), thing, 2)
	return all
}

// Whatever an attribute is, no call panics, an error is one of annals and has no payload, and an attribute that does not have its form is
// ErrCorrupt.
func TestItemsThatAreDamaged(t *testing.T) {
	t.Parallel()
	damages := map[string]types.AttributeValue{"missing": nil, "text": plan.S("secret"), "empty text": plan.S(""), "number": plan.N(7), "negative": plan.N(-7), "large": &types.AttributeValueMemberN{Value: "1e30"},
		"bytes": plan.B([]byte("secret")), "null": &types.AttributeValueMemberNULL{Value: true}, "list": plan.L(plan.S("secret")), "list of maps": plan.L(plan.M(plan.Item{"seq_nr": plan.N(1)})),
		"map": plan.M(plan.Item{"payload": plan.S("secret")})}
	accepted := map[string][]string{ // forms that are right, or attributes that are not needed
		"serializer": {"missing", "number", "negative"}, "write_id": {"missing", "empty text"}, "manifest": {"text", "empty text"}, "payload": {"bytes"}, "occurred_at": {"number", "negative"},
		"last_updated_at": {"number", "negative"}, "type_name": slices.Collect(maps.Keys(damages)), "active_history_seq_nr": slices.Collect(maps.Keys(damages)),
		"seq_nr of snapshot": {"number"}, "seq_nr of head": {"number"},
	}
	tried := 0
	for _, table := range []string{"journal", "snapshot", "head"} {
		for i, it := range full(t).Items(table) {
			if plan.KeyText(it["aid"]) == "__config__" {
				continue
			}
			for name := range it {
				if name == "aid" || name == "skey" || name == "seq_nr" && table == "journal" {
					continue // a key
				}
				for damage, v := range damages {
					b := full(t)
					damaged := maps.Clone(b.Items(table)[i])
					if damaged[name] = v; v == nil {
						delete(damaged, name)
					}
					put(t, b.Executor, table, damaged)
					tried++
					found := false
					for call, err := range b.calls() {
						found = found || errors.Is(err, annals.ErrCorrupt)
						if e := (*annals.Error)(nil); err != nil && !errors.As(err, &e) || err != nil && strings.Contains(err.Error(), "secret") {
							t.Errorf("%s: %s %s: %s: %v", table, name, damage, call, err)
						}
					}
					right := slices.Contains(accepted[name], damage) || slices.Contains(accepted[name+" of "+table], damage)
					if found == right && !(name == "seq_nr" && damage == "number") { // another number is a hole
						t.Errorf("%s: %s %s: found %v", table, name, damage, found)
					}
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("%d damages", tried)
	}
}

// Events that were lost are found wherever they are: the first, one between others, and the last. With Gaps only those of the last commit are.
func TestLostEventsAreFound(t *testing.T) {
	t.Parallel()
	for lost := annals.SeqNr(1); lost <= 5; lost++ {
		b := newBench(t, esa.Layout{Peer: esa.Rust5})
		b.write(thing, b.write(thing, 0, 3), 2)
		if err := b.DeleteAll(t.Context(), "journal", []plan.Item{{"aid": plan.S("Thing-1"), "seq_nr": plan.N(lost)}}); err != nil {
			t.Fatal(err)
		}
		got, err := b.replay(thing, 1, annals.MaxSeqNr)
		if !errors.Is(err, annals.ErrCorrupt) || len(got) != int(lost)-1 {
			t.Errorf("without %d: %v, %v", lost, numbers(got), err)
		}
		if _, err := b.recover(thing); !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("recovery without %d: %v", lost, err)
		}
		if got, err := b.replay(thing, lost+1, annals.MaxSeqNr); err != nil || len(got) != 5-int(lost) {
			t.Errorf("behind %d: %v, %v", lost, numbers(got), err)
		}
		gaps := on(t, esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Gaps: true}}, b.Executor)
		if got, err := gaps.replay(thing, 1, annals.MaxSeqNr); lost < 4 && (err != nil || len(got) != 4) || lost >= 4 && !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("with gaps, without %d: %v, %v", lost, numbers(got), err)
		}
		if r, err := gaps.recover(thing); lost < 4 && (err != nil || r.last != 5 || len(r.numbers) != 4) || lost >= 4 && !errors.Is(err, annals.ErrCorrupt) {
			t.Errorf("recovery with gaps, without %d: %+v, %v", lost, r, err)
		}
	}
}
