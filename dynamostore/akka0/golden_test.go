package akka0_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// scenario is a sequence of calls of the plugin, the table that the plugin wrote, and what the plugin then read.
type scenario struct {
	settings struct {
		Config map[string]any
	}
	tables   []plantest.Dump
	inputs   struct{ Steps []step }
	expected struct {
		PersistenceIDs map[annals.PersistenceID]entity
	}
	defects []defect
}

type step struct {
	Op            string
	PID           annals.PersistenceID
	Events        []stored
	SeqNrs        []annals.SeqNr
	To            annals.SeqNr
	Permanent     bool
	Confirmations []struct {
		SeqNr   annals.SeqNr
		Channel string
	}
}

type stored struct {
	SeqNr        annals.SeqNr
	SerializerID int32
	Manifest     string
	Data         []byte
	Deleted      bool
	Confirms     []string
}

type entity struct {
	Highest annals.SeqNr
	Events  []stored
	Windows []struct {
		From, To, Max annals.SeqNr
		ReplayDeleted bool
		Events        []stored
		SeqNrs        []annals.SeqNr
	}
}

type defect struct{ ID string }

// scenarios reads the archive. Its tables were written by the plugin itself, version 0.3.4.
func scenarios(t *testing.T) map[string]*scenario {
	t.Helper()
	all := map[string]*scenario{}
	for file, data := range plantest.Archive(t, "testdata/akka0.tar.bz2") {
		name := file[0]
		if all[name] == nil {
			all[name] = &scenario{}
		}
		s := all[name]
		into := map[string]any{"settings.json": &s.settings, "tables.json": &s.tables, "inputs.json": &s.inputs, "expected.json": &s.expected, "defects.json": &s.defects}[file[1]]
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

func (s *scenario) layout() akka0.Layout {
	l := akka0.Layout{}
	l.JournalName, _ = s.settings.Config["dynamodb-journal.journal-name"].(string)
	shards, _ := s.settings.Config["dynamodb-journal.sequence-shards"].(float64)
	l.SequenceShards = int(shards)
	return l
}

// bench returns a bench with the table that the plugin wrote.
func (s *scenario) bench(t *testing.T) bench {
	t.Helper()
	b := newBench(t, s.layout())
	for _, it := range s.tables[0].Items {
		b.put(plan.Item(it))
	}
	return b
}

// lost are the events that the plugin does not read although they are in the table: it stops behind a window of 1000 numbers of which one has no
// event.
var lost = map[annals.PersistenceID]annals.SeqNr{"late": 1001}

// Everything that the plugin wrote is read: what the plugin itself reads, and the events that it does not find.
func TestGoldenRead(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bench(t)
			b.must(b.offer.Check(t.Context(), b.x, false))
			for id, want := range s.expected.PersistenceIDs {
				if last := b.last(id); last != want.Highest {
					t.Errorf("%q: the last number is %d, want %d", id, last, want.Highest)
				}
				b.compare(id, window{1, math.MaxInt64, math.MaxInt64, false}, want.Events)
				for _, w := range want.Windows {
					if w.Events == nil {
						for _, n := range w.SeqNrs {
							at := slices.IndexFunc(want.Events, func(e stored) bool { return e.SeqNr == n })
							if at < 0 {
								w.Events = append(w.Events, stored{SeqNr: n})
								continue
							}
							w.Events = append(w.Events, want.Events[at])
						}
					}
					b.compare(id, window{w.From, w.To, w.Max, w.ReplayDeleted}, w.Events)
				}
			}
			for id, want := range kept(s.inputs.Steps) {
				if got := b.read(id, window{1, math.MaxInt64, math.MaxInt64, false}); !slices.EqualFunc(got, want, sameEvent) {
					t.Errorf("%q: read %v, acknowledged and not deleted were %v", id, got, want)
				}
			}
		})
	}
}

// window are the arguments of a replay by the plugin.
type window struct {
	from, to, max annals.SeqNr
	all           bool // those marked as deleted, too
}

// read replays as the plugin does: max is the most events.
func (b bench) read(id annals.PersistenceID, w window) (all []stored) {
	b.Helper()
	for m, err := range akka0.Messages(b.Context(), plantest.Store(b), id, w.from, w.to) {
		b.must(err)
		if annals.SeqNr(len(all)) == w.max {
			break
		}
		if m.Deleted && !w.all {
			continue
		}
		all = append(all, stored{m.SeqNr, m.SerializerID, m.Manifest, m.Data, m.Deleted, m.Confirmations})
	}
	return all
}

func (b bench) compare(id annals.PersistenceID, w window, want []stored) {
	b.Helper()
	got := b.read(id, w)
	if n := len(want); n < len(got) && got[n].SeqNr == lost[id] && len(got) == n+1 {
		got = got[:n]
	}
	if !slices.EqualFunc(got, want, func(a, b stored) bool {
		return sameEvent(a, b) && a.Deleted == b.Deleted && slices.Equal(a.Confirms, b.Confirms) || b.Data == nil && a.SeqNr == b.SeqNr && a.SeqNr == lost[id]
	}) {
		b.Errorf("%q %+v: read %v, want %v", id, w, got, want)
	}
	var replayed []stored
	for e, err := range b.Journal.Replay(b.Context(), id, max(w.from, 1), w.to) {
		b.must(err)
		replayed = append(replayed, stored{SeqNr: e.SeqNr, SerializerID: e.SerializerID, Manifest: e.Manifest, Data: e.Data})
	}
	live := b.read(id, window{w.from, w.to, math.MaxInt64, false})
	if !slices.EqualFunc(replayed, live, sameEvent) {
		b.Errorf("%q %+v: replayed %v, want %v", id, w, replayed, live)
	}
}

func sameEvent(a, b stored) bool {
	return a.SeqNr == b.SeqNr && a.SerializerID == b.SerializerID && a.Manifest == b.Manifest && string(a.Data) == string(b.Data)
}

// kept returns the events that were acknowledged and not deleted.
func kept(steps []step) map[annals.PersistenceID][]stored {
	all := map[annals.PersistenceID][]stored{}
	for _, s := range steps {
		all[s.PID] = append(all[s.PID], s.Events...)
		all[s.PID] = slices.DeleteFunc(all[s.PID], func(e stored) bool {
			return s.Op == "delete" && slices.Contains(s.SeqNrs, e.SeqNr) || s.Op == "deleteTo" && e.SeqNr <= s.To
		})
	}
	return all
}

// mended are the items that differ from the plugin's, by scenario: those that only one of the two writes, and those whose payload differs.
var mended = map[string]struct{ missing, more, other []string }{
	"default": {other: []string{ // the path of the sender, which has no meaning for a reader
		"journal-P-sender-1", "journal-P-sender-2"}},
	"deletes": {
		missing: []string{ // items without payload, which the plugin makes for events that do not exist, and their counters
			"journal-P-mark-all-0", "journal-P-mark-to-0", "journal-P-mark-twice-0", "journal-P-never-written-0", "journal-P-never-written-1", "journal-P-never-written-2",
			"journal-P-orphan-confirm-3", "journal-P-orphan-mark-3", "journal-P-orphan-mark-4",
			"journal-SL-mark-all-0", "journal-SL-mark-to-0", "journal-SL-mark-twice-0", "journal-SL-never-written-0", "journal-SL-never-written-1", "journal-SL-never-written-2"},
		more: []string{ // counters of permanent deletes, which the plugin does not write although its documentation says so
			"journal-SL-orphan-confirm-3", "journal-SL-perm-3", "journal-SL-perm-4", "journal-SL-perm-all-1", "journal-SL-perm-all-2", "journal-SL-perm-all-3", "journal-SL-perm-all-4",
			"journal-SL-perm-to-1", "journal-SL-perm-to-2", "journal-SL-perm-to-3"},
		other: []string{ // each event gets its own confirmations only
			"journal-P-confirmed-two-2", "journal-P-confirmed-two-4"},
	},
	"shards": {},
}

// The calls of the plugin, made by the layout, write the plugin's items.
func TestGoldenWrite(t *testing.T) {
	t.Parallel()
	all := scenarios(t)
	for name, want := range mended {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := all[name]
			b := newBench(t, s.layout())
			for _, step := range s.inputs.Steps {
				b.do(step)
			}
			theirs, ours := map[string]plan.Item{}, map[string]plan.Item{}
			for _, it := range s.tables[0].Items {
				theirs[keyOf(plan.Item(it))] = plan.Item(it)
			}
			for _, it := range b.x.Items(table) {
				ours[keyOf(it)] = it
			}
			var missing, more, other []string
			for key, it := range theirs {
				switch own := ours[key]; {
				case own == nil:
					missing = append(missing, key)
				case !reflect.DeepEqual(own, it):
					other = append(other, key)
				}
			}
			for key := range ours {
				if theirs[key] == nil {
					more = append(more, key)
				}
			}
			for what, keys := range map[string][2][]string{"missing": {missing, want.missing}, "more": {more, want.more}, "other": {other, want.other}} {
				slices.Sort(keys[0])
				if !slices.Equal(keys[0], keys[1]) {
					t.Errorf("%s items:\n%s\nwant\n%s", what, strings.Join(keys[0], "\n"), strings.Join(keys[1], "\n"))
				}
			}
		})
	}
}

func keyOf(it plan.Item) string {
	key, _ := plan.Text(it, "key")
	return key
}

// do makes a call of the plugin.
func (b bench) do(s step) {
	b.Helper()
	ctx := b.Context()
	switch s.Op {
	case "persist":
		c := annals.Commit{ID: s.PID, After: s.Events[0].SeqNr - 1, WriteID: annals.NewWriteID()}
		for _, e := range s.Events {
			c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: e.SerializerID, Manifest: e.Manifest, Data: e.Data}})
		}
		_, err := b.Journal.Append(ctx, c)
		b.must(err)
	case "delete":
		b.must(akka0.Delete(ctx, plantest.Store(b), s.PID, s.Permanent, s.SeqNrs...))
	case "deleteTo":
		b.deleteTo(s.PID, s.To, s.Permanent)
	case "confirm":
		channels := map[annals.SeqNr][]string{}
		for _, c := range s.Confirmations {
			channels[c.SeqNr] = append(channels[c.SeqNr], c.Channel)
		}
		b.must(akka0.Confirm(ctx, plantest.Store(b), s.PID, channels))
	default:
		b.Fatalf("no case for %s", s.Op)
	}
}

// deleteTo deletes in either mode, whatever the layout's own is.
func (b bench) deleteTo(id annals.PersistenceID, to annals.SeqNr, permanent bool) {
	b.Helper()
	l := b.layout
	l.Permanent = permanent
	offer, err := l.Plan()
	b.must(err)
	b.must(offer.On(b.x).Journal.DeleteTo(b.Context(), id, to))
}
