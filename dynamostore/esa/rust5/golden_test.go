package rust5_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// What the library has read of its tables is read, also of those that its migration has made.
func TestGoldenTablesAreRead(t *testing.T) {
	t.Parallel()
	read := 0
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			prefix, dumps := "", s.tables
			if strings.HasPrefix(s.name, "migrat") {
				prefix = "new-"
				dumps = slices.DeleteFunc(slices.Clone(dumps), func(d plantest.Dump) bool { return !strings.HasPrefix(d.Table.TableName, prefix) })
			}
			layout := s.inputs.Steps[0].Settings.layout(prefix)
			b := newBench(t, layout, dumps...)
			plantest.WantLeft(t, layout, b.Executor, left[s.name])
			for _, want := range s.expected.Aggregates {
				if s.name == "migrated-from-1" {
					b.refuses(want)
				} else {
					b.reads(want)
				}
				read++
			}
		})
	}
	if read < 80 {
		t.Errorf("%d aggregates were read", read)
	}
}

// reads compares an aggregate with what the library has read.
func (b *bench) reads(want expectedAggregate) {
	b.Helper()
	id := want.ID.id()
	if want.Error != nil && want.Error.Class == "ContractViolation" { // a type with "-", or too long
		_, err := b.Journal.LastSeqNr(b.Context(), id)
		if !errors.Is(err, annals.ErrInvalid) {
			b.Errorf("%.60q: %v, the library: %s", id, err, want.Error.Message)
		}
		return
	}
	if want.Error != nil { // the library could not open its tables with the last settings
		return
	}
	b.wantEvents(id, 1, want.Events)
	b.wantLatest(id, want.LatestSnapshot)
	r, err := b.recover(id)
	if err != nil {
		b.Errorf("recovery of %.60q: %v", id, err)
	}
	if want.Replayed != nil && (r.last != want.Replayed.SeqNr || fmt.Sprint(r.numbers) != fmt.Sprint(want.Replayed.AppliedSeqNrs)) {
		b.Errorf("recovery of %.60q: %v, last %d, want %+v", id, r.numbers, r.last, *want.Replayed)
	}
}

// refuses checks an aggregate of tables of version 1 that the library's migration has accepted: its snapshot has no number, so its state and the events
// would not fit together.
func (b *bench) refuses(want expectedAggregate) {
	b.Helper()
	if _, err := b.recover(want.ID.id()); want.LatestSnapshot != nil && !errors.Is(err, annals.ErrCorrupt) {
		b.Errorf("recovery of %q: %v", want.ID.id(), err)
	}
}

func (b *bench) wantEvents(id annals.PersistenceID, from annals.SeqNr, want []expectedEvent) {
	b.Helper()
	got, err := b.replay(id, from, annals.MaxSeqNr)
	if err != nil || len(got) != len(want) {
		b.Errorf("%.60q: %v, %v, want %d events", id, numbers(got), err, len(want))
		return
	}
	for i, e := range got {
		w := want[i]
		if e.ID != id || e.SeqNr != w.SeqNr || !e.Time.Equal(w.OccurredAt) || e.Manifest != w.Manifest || !sameJSON(e.Data, w.Body) || e.SerializerID != codec.JSONSerializer {
			b.Errorf("%.60q: event %+v, want %+v", id, e, w)
		}
	}
}

func (b *bench) wantLatest(id annals.PersistenceID, want *latest) {
	b.Helper()
	last, err := b.Journal.LastSeqNr(b.Context(), id)
	s, ok, err2 := b.Snapshots.Latest(b.Context(), id, annals.SnapshotCriteria{})
	if want == nil {
		want = &latest{}
	}
	w := want.Snapshot
	if errors.Join(err, err2) != nil || last != want.HeadSeqNr || ok != (w != nil) || ok && (s.SeqNr != w.SeqNr || s.Manifest != w.Manifest || !sameJSON(s.Data, w.Body)) {
		b.Errorf("%.60q: last %d, snapshot %+v, %v, %v, want %+v %+v", id, last, s, err, err2, *want, w)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// The same calls make the same items as the library, and have the same results, but for the state of another aggregate, which is refused.
func TestGoldenTablesAreEqualled(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		if strings.HasPrefix(s.name, "migrat") {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t, s.inputs.Steps[0].Settings.layout(""))
			for i, step := range s.inputs.Steps {
				want := s.expected.Results[i]
				switch step.Op {
				case "open":
					if want.OK { // Keep 0 has another meaning here
						b = on(t, step.Settings.layout(""), b.Executor)
					}
				case "persistEvent", "persistEventAndSnapshot":
					b.persists(i, step, want)
				case "latestSnapshot":
					var l *latest
					unmarshal(t, want.Result, &l)
					b.wantLatest(step.AggregateID.id(), l)
				case "events":
					var events []expectedEvent
					unmarshal(t, want.Result, &events)
					b.wantEvents(step.AggregateID.id(), step.Since, events)
				case "rawCopies":
					b.wantCopies(i, step.AggregateID, want.Result)
				default:
					t.Fatalf("step %d is %s", i, step.Op)
				}
			}
			for _, d := range s.tables {
				got, want := b.Items(d.Table.TableName), plantest.New(b.offer.Tables)
				for _, it := range d.Items {
					put(t, want, d.Table.TableName, plan.Item(it))
				}
				sameItems(t, d.Table.TableName, got, want.Items(d.Table.TableName))
			}
		})
	}
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// persists makes the call of a step.
func (b *bench) persists(i int, step input, want result) {
	b.Helper()
	e := step.Event
	c := annals.Commit{ID: e.AggregateID.id(), After: e.SeqNr - 1}
	c.Events = []annals.NewEvent{{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: e.Type, Data: compact(b.T, e.Body)}, Time: e.OccurredAt}}
	if a := step.Aggregate; a != nil {
		c.Snapshot = &annals.Snapshot{ID: a.AggregateID.id(), SeqNr: a.SeqNr, Time: a.LastUpdatedAt, Payload: annals.Payload{SerializerID: codec.JSONSerializer, Manifest: a.AggregateID.Type + "/v1", Data: compact(b.T, a.Body)}}
		if c.Snapshot.ID != c.ID {
			if _, err := b.append(c); !errors.Is(err, annals.ErrInvalid) {
				b.Errorf("step %d: the state of another aggregate: %v", i, err)
			}
			c.Snapshot.ID, c.Snapshot.Manifest = c.ID, e.AggregateID.Type+"/v1"
		}
	}
	_, err := b.append(c)
	if want.OK {
		if err != nil {
			b.Errorf("step %d: %v", i, err)
		}
		return
	}
	kind := annals.ErrInvalid
	if want.Error.Class == "OptimisticLock" || strings.Contains(want.Error.Message, "W-8") { // W-8 is a number above the next one
		kind = annals.ErrConflict
	}
	if !errors.Is(err, kind) {
		b.Errorf("step %d: %v, the library: %s", i, err, want.Error.Message)
	}
}

// wantCopies compares the rows of the snapshot table with those that the library has left.
func (b *bench) wantCopies(step int, id aggregateID, data []byte) {
	b.Helper()
	var want []struct{ Skey, SeqNr, TTL, ActiveHistorySeqNr string }
	unmarshal(b.T, data, &want)
	var got, wanted []string
	for _, it := range b.Items(b.offer.Tables[1].Name) {
		if aid, _ := plan.Text(it, "aid"); aid == id.Type+"-"+id.Value {
			ttl := ""
			if it["ttl"] != nil {
				ttl = "marked"
			}
			got = append(got, fmt.Sprint(plan.KeyText(it["skey"]), plan.KeyText(it["seq_nr"]), ttl, plan.KeyText(it["active_history_seq_nr"])))
		}
	}
	for _, w := range want {
		wanted = append(wanted, fmt.Sprint(w.Skey, w.SeqNr, w.TTL, w.ActiveHistorySeqNr))
	}
	if !slices.Equal(got, wanted) {
		b.Errorf("step %d: rows %q, want %q", step, got, wanted)
	}
}

// sameItems compares items. The store_id and the end of a copy are others in each run.
func sameItems(t *testing.T, table string, got, want []plan.Item) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("table %s: %d items, want %d", table, len(got), len(want))
		return
	}
	for i, it := range got {
		a, b := maps.Clone(it), maps.Clone(want[i])
		for _, name := range []string{"store_id", "ttl"} {
			if plan.TypeOf(a[name]) == plan.TypeOf(b[name]) {
				delete(a, name)
				delete(b, name)
			}
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("table %s: the item %s\n%s\nwant\n%s", table, plan.QuoteKey(plan.Item{"aid": it["aid"]}), text(a), text(b))
		}
	}
}

func text(it plan.Item) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(it)) {
		data, _ := json.Marshal(it[name])
		fmt.Fprintf(&b, "%s %.120s\n", name, data)
	}
	return b.String()
}

// left is what is found in the tables of the library. Its migration gives the snapshots of 1.x the number 0: see docs/formats/event-store-adapter.md.
var left = map[string]string{
	"migrated-from-1": "snapshot GroupChat|01HF9YV0G3H8JPCNKGEY8Q4RSZ 0 0; snapshot GroupChat|created-only 0 0; snapshot UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 0 0; snapshot UserAccount|01H42KBHCW1BZG504J4ZXKA2F2 0 0",
}
