package akka_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/internal/writes"
)

// refused are the ids of which the layout refuses a call: one that replaces an event, or a batch of more events than a transaction has. Their
// items are not compared.
var refused = map[string]string{
	"default":           "[jump]",
	"defects":           "[h-jump h-shr r-100r t-mid t-two]",
	"akka1-old/defects": "[h-98r h-jump h-shr r-100r t-mid t-two]",
}

// mended are the items that differ, of all plugins and of version 1.1.1. No other items do.
var mended, mendedOld = map[string][]string{
	"deletes": {
		"no item journal-SL-never-written-0 0", // a delete of nothing leaves nothing
		"the item journal-P-all-at-100-1 0",    // a delete of everything leaves the last item
		"the item journal-P-all-at-99-0 99",
		"the item journal-P-all-gone-0 7",
		"the item journal-P-all-then-more-0 20",
		"the item journal-P-spec-example-2 0",
	},
	"persistence-ids": {"the item journal-P-all-deleted-0 3"},
	"defects": {
		"no item journal-P-f-delete-0 1", // a delete that failed is repeated
		"no item journal-P-f-delete-0 2",
		"no item journal-P-f-delete-0 3",
		"no item journal-P-f-delete-0 4",
		"no item journal-SL-d-nobody-0 0",
		"the item journal-P-h-sl-0 7",
		"the item journal-P-h-sl2-1 5",
	},
	"mixed": {"the item journal-SH-m-100-1 0"}, // the high mark of a batch that begins with 100
}, map[string][]string{
	"default":         {"the item journal-SH-order-1-2 0", "the item journal-SH-starts-100-1 0"},
	"defects":         {"the item journal-SH-h-98-1 0"},
	"sequence-shards": {"the item acme-P-v1-SH-s-1-1 0"},
	"payloads":        {"journal-P-timestamped-0 1: pay", "journal-P-timestamped-0 2: pay", "journal-P-timestamped-0 3: pay"}, // with timestamps of the test's own
}

// The calls of the plugins, made by the layout, write the plugins' items, attribute by attribute.
func TestGoldenWrite(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.system+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, s.layout())
			if s.before != nil {
				l := s.layout()
				l.Journal.Old, l.Snapshot.Old = true, true
				before := &writer{w.reopened(l), l, w.refused}
				before.do(s, "akka1-old")
				w.compare(s.before, mended[s.name])
			}
			w.do(s, s.system)
			want := cmp.Or(refused[s.system+"/"+s.name], refused[s.name], "[]")
			if got := fmt.Sprint(slices.Sorted(maps.Keys(w.refused))); got != want {
				t.Errorf("refused calls for %s, want %s", got, want)
			}
			differences := mended[s.name]
			if s.system == "akka1-old" {
				differences = slices.Sorted(slices.Values(slices.Concat(differences, mendedOld[s.name])))
			}
			w.compare(s.tables, differences)
		})
	}
}

// writer makes the calls of a scenario.
type writer struct {
	*bench
	layout  akka.Layout
	refused map[annals.PersistenceID]bool
}

func newWriter(t *testing.T, l akka.Layout) *writer {
	t.Helper()
	return &writer{newBench(t, l), l, map[annals.PersistenceID]bool{}}
}

// do makes the calls that the plugin by made.
func (w *writer) do(s *scenario, by string) {
	w.Helper()
	for _, step := range s.inputs.Steps {
		if step.By != "" && step.By != by {
			continue
		}
		err := w.step(step)
		if errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrTooLarge) {
			w.refused[step.PID] = true
		} else if err != nil {
			w.Fatalf("%s %q: %v", step.Op, step.PID, err)
		}
	}
}

func (w *writer) step(s step) error {
	ctx := w.Context()
	switch s.Op {
	case "persist":
		return w.persist(s)
	case "deleteTo":
		return w.Journal.DeleteTo(ctx, s.PID, s.To)
	case "purge":
		return akka.Purge(ctx, plantest.Store(w), s.PID)
	case "restart":
		w.last(s.PID)
	case "saveSnapshot":
		if s.Data != nil {
			return w.Snapshots.Save(ctx, annals.Snapshot{ID: s.PID, SeqNr: s.SeqNr, Time: time.UnixMilli(s.Timestamp), Payload: s.payload.ours()})
		}
	case "deleteSnapshot":
		return w.Snapshots.Delete(ctx, s.PID, annals.SnapshotCriteria{MinSeqNr: s.SeqNr, MaxSeqNr: s.SeqNr})
	case "deleteSnapshots":
		s.criteria.To = annals.MaxSeqNr
		return w.Snapshots.Delete(ctx, s.PID, s.criteria.ours())
	case "loseItem":
		return w.DeleteAll(ctx, w.layout.Journal.Table, []plan.Item{s.key()})
	case "changeItem":
		it, _, err := w.Get(ctx, plan.Get{Table: w.layout.Journal.Table, Key: s.key()})
		for name, n := range s.Set {
			it[name] = plan.N(n)
		}
		return err
	default:
		w.Fatalf("no case for %s", s.Op)
	}
	return nil
}

func (s step) key() plan.Item { return plan.Item{"par": plan.S(s.Par), "num": plan.N(s.Num)} }

// persist makes one commit of a batch, and one commit of each of several single events. An event that the plugin has rejected for its size is
// ErrTooLarge.
func (w *writer) persist(s step) (err error) {
	batches := [][]payload{s.Events}
	if !s.Atomic {
		batches = slices.Collect(slices.Chunk(s.Events, 1))
	}
	at := 0
	for _, batch := range batches {
		accepted := len(batch) > 0 && s.acknowledged(at)
		at += len(batch)
		c, ok := commit(s.PID, s.WriterUUID, batch)
		if !ok {
			continue
		}
		failed := valid.Commit(c, w.limits)
		if failed == nil {
			_, failed = w.Journal.Append(w.Context(), c)
		}
		if accepted {
			err = errors.Join(err, failed)
		} else if !errors.Is(failed, annals.ErrTooLarge) {
			w.Errorf("%q: an append of an event above the plugin's limit: %v", s.PID, failed)
		}
	}
	return err
}

// commit returns a commit of events; false when one of them could not be serialized, or there are none.
func commit(id annals.PersistenceID, writer string, events []payload) (c annals.Commit, ok bool) {
	c.ID = id
	for _, e := range events {
		if e.DataLength > 0 {
			data := make([]byte, e.DataLength)
			e.Data = &data
		}
		if e.Data == nil {
			return c, false
		}
		c.Events = append(c.Events, annals.NewEvent{Payload: e.ours(), Adapter: e.AdapterManifest})
	}
	if len(events) == 0 {
		return c, false
	}
	c.After = events[0].SeqNr - 1
	var err error
	c.WriteID, err = writes.ParseID(writer)
	return c, err == nil
}

func (p payload) ours() annals.Payload {
	return annals.Payload{SerializerID: p.SerializerID, Manifest: p.Manifest, Data: *p.Data}
}

// compare compares the tables with want, without the items of ids that had a refusal. The items of differences differ.
func (w *writer) compare(want []plantest.Dump, differences []string) {
	w.Helper()
	var found []string
	for _, table := range want {
		have := map[string]plan.Item{}
		for _, it := range w.Items(table.Table.TableName) {
			have[key(it)] = it
		}
		for _, it := range table.Items {
			k := key(plan.Item(it))
			got, ok := have[k]
			delete(have, k)
			if w.skips(k) {
				continue
			}
			if !ok {
				found = append(found, "no item "+k)
			} else if diff := different(got, plan.Item(it)); diff != "" {
				found = append(found, k+": "+diff)
			}
		}
		for k := range have {
			if !w.skips(k) {
				found = append(found, "the item "+k)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, differences) {
		w.Errorf("the tables differ:\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(differences, "\n"))
	}
}

// skips reports whether an item is of an id that had a refusal, or whose calls are not in the scenario.
func (w *writer) skips(key string) bool {
	for id := range w.refused {
		if strings.Contains(key, "-"+string(id)+"-") {
			return true
		}
	}
	return strings.Contains(key, "-r-actor-") || strings.Contains(key, "-f-unprocessed-") || strings.Contains(key, "-f-150-")
}

// key shows the key of an item of either table.
func key(it plan.Item) string {
	n := it["num"]
	if n == nil {
		n = it["seq"]
	}
	return plan.KeyText(it["par"]) + " " + plan.KeyText(n)
}

// different returns the first attribute in which two items differ; "" when there is none.
func different(got, want plan.Item) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(got[name], want[name]) {
			return name
		}
	}
	for name := range got {
		if want[name] == nil {
			return name
		}
	}
	return ""
}

// The reader of version 1.1.1 fails at the items of newer versions, and reads those of the layout's old format.
func TestGoldenOldReader(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		if s.before == nil {
			continue
		}
		t.Run(s.system, func(t *testing.T) {
			t.Parallel()
			l := s.layout()
			l.Journal.Old, l.Snapshot.Old = true, true
			w := &writer{newBench(t, l, s.before...), l, map[annals.PersistenceID]bool{}}
			w.do(s, s.system)
			byPlugin := newBench(t, l, s.tables...)
			for id, e := range s.expectedByOld.PersistenceIDs {
				if e.Journal != nil {
					continue
				}
				if read, failed := readByPlugin(byPlugin.Items(l.Journal.Table), id, "pay"); failed != (e.Error != "") || !slices.Equal(read, numbersOf(e)) {
					t.Errorf("%q by the plugin: read %v, failed %v, want %v, %q", id, read, failed, numbersOf(e), e.Error)
				}
				if read, failed := readByPlugin(w.Items(l.Journal.Table), id, "pay"); failed || !slices.Equal(read, numbersOf(s.expected.PersistenceIDs[id])) {
					t.Errorf("%q by the layout: read %v, failed %v", id, read, failed)
				}
			}
			for _, it := range w.Items(l.Snapshot.Table) {
				if it["pay"] == nil {
					t.Errorf("the snapshot %s is of the new format", key(it))
				}
			}
		})
	}
}

// readByPlugin returns the numbers that a reader of the plugin finds through the marks. It fails at an item that does not have the attribute of the
// reader's format.
func readByPlugin(items []plan.Item, id annals.PersistenceID, attribute string) (read []annals.SeqNr, failed bool) {
	var low, high annals.SeqNr
	readable := map[annals.SeqNr]bool{}
	for _, it := range items {
		kind, of, group := parse(plan.KeyText(it["par"]))
		n, _ := plan.Number(it, "num")
		seq, _ := plan.Number(it, "seq")
		switch {
		case of != id:
		case kind == "SH":
			high = max(high, annals.SeqNr(seq))
		case kind == "SL":
			low = max(low, annals.SeqNr(seq))
		default:
			readable[group*100+annals.SeqNr(n)] = it[attribute] != nil
		}
	}
	for n := max(low, 1); n < high+100; n++ {
		if ok, stored := readable[n]; stored && !ok {
			return read, true
		} else if stored {
			read = append(read, n)
		}
	}
	return read, false
}
