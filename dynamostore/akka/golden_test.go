package akka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// bench is a layout on tables in memory.
type bench struct {
	*testing.T
	*plantest.Executor
	plan.Contracts
	limits annals.Limits
	gaps   annals.Journal // with Journal.Gaps
}

func newBench(t *testing.T, l akka.Layout, tables ...plantest.Dump) *bench {
	t.Helper()
	b := on(t, l, nil)
	for _, table := range tables {
		for _, it := range table.Items {
			put(t, b.Executor, table.Table.TableName, plan.Item(it))
		}
	}
	return b
}

// reopened returns a bench of another layout on the same tables.
func (b *bench) reopened(l akka.Layout) *bench {
	return on(b.T, l, b.Executor)
}

func on(t *testing.T, l akka.Layout, x *plantest.Executor) *bench {
	t.Helper()
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if x == nil {
		x = plantest.New(offer.Tables)
	}
	l.Journal.Gaps = true
	lenient, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, x, offer.On(x), offer.Capabilities.Limits, lenient.On(x).Journal}
}

// Execute is plan.Runner.
func (b *bench) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, b.Contracts, b.Executor)
}

// corrupt are the ids of which rows prove that events were lost: without Journal.Gaps a replay is ErrCorrupt. With it, what is left is read as
// the plugin does.
var corrupt = map[annals.PersistenceID]string{
	"i-mid":    "the writer of a batch has lost an event of it, and went on",
	"i-first":  "the same",
	"i-last":   "the same",
	"i-next":   "the same",
	"i-over":   "the entity begins with event 10",
	"i-over2":  "the same",
	"i-orphan": "the same",
}

// replay returns up to most events.
func (b *bench) replay(id annals.PersistenceID, from, to, most annals.SeqNr) (events []annals.Event) {
	b.Helper()
	if most == 0 {
		return nil
	}
	j := b.Journal
	if corrupt[id] != "" {
		j = b.gaps
		b.wantCorrupt(id, corrupt[id])
	}
	for e, err := range j.Replay(b.Context(), id, from, to) {
		if err != nil {
			b.Errorf("replay of %q from %d to %d: %v", id, from, to, err)
			return events
		}
		if events = append(events, e); annals.SeqNr(len(events)) == most {
			break
		}
	}
	return events
}

func (b *bench) wantCorrupt(id annals.PersistenceID, why string) {
	b.Helper()
	if _, err := b.Recover(b.Context(), id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); !errors.Is(err, annals.ErrCorrupt) {
		b.Errorf("recovery of %q: %v, want ErrCorrupt: %s", id, err, why)
	}
}

func (b *bench) last(id annals.PersistenceID) annals.SeqNr {
	b.Helper()
	last, err := b.Journal.LastSeqNr(b.Context(), id)
	if err != nil {
		b.Errorf("last number of %q: %v", id, err)
	}
	return last
}

func numbers(events []annals.Event) (all []annals.SeqNr) {
	for _, e := range events {
		all = append(all, e.SeqNr)
	}
	return all
}

// numbersOf returns the numbers that a plugin has read.
func numbersOf(e entity) (all []annals.SeqNr) {
	for _, e := range e.Events {
		all = append(all, e.SeqNr)
	}
	return all
}

// show returns numbers as ranges, and the last number.
func show(numbers []annals.SeqNr, last annals.SeqNr) string {
	var text strings.Builder
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		fmt.Fprintf(&text, "%d", numbers[first])
		if i > first+1 {
			fmt.Fprintf(&text, "-%d", numbers[i-1])
		}
		text.WriteString(" ")
	}
	return text.String() + fmt.Sprintf("last %d", last)
}

// lost says what the plugins read of entities where they lose events that were acknowledged. The layout finds these events. In old are the
// entities that only version 1.1.1 loses events of, or loses more of.
var lost, old = map[string]map[annals.PersistenceID]string{
	"deletes": {"inside-batch": "7 last 7"}, // a batch whose first events are deleted
	"mixed":   {"m-100": "1-99 last 99"},    // no high mark: 1.1.1 has written none
	"defects": {
		"w-del":            "7 last 7",       // a batch whose first events are deleted
		"i-cnt0":           "1 3 last 3",     // an event with cnt 0
		"i-cnt0b":          "1 last 2",       // an event with cnt 0
		"h-sh":             "1-99 last 99",   // the high mark is missing
		"h-shr":            "1-100 last 105", // the same, and then the numbers were used again
		"h-hole":           "1-98 last 98",   // the same, and the event 99
		"h-jump":           "1-89 last 99",   // the high mark of a batch is missing
		"r-100":            "1-99 last 99",   // 100 was rejected, so there is no high mark
		"r-100r":           "1-101 last 103", // the same, and then the numbers were used again
		"r-actor":          "1-101 last 103", // the same by an actor
		"r-99":             "1-98 last 98",   // a batch over 100 was rejected
		"f-unprocessed-SH": "1-99 last 99",   // the service did not process the high mark
	},
}, map[string]map[annals.PersistenceID]string{
	"default": {"order-1": "1-199 last 199", "starts-100": "1-99 last 99"}, // a batch that begins with 100 or 200 has no high mark
	"defects": {"h-98": "1-99 last 99"},                                    // the same
}

// beside says what the layout reads where the calls of a scenario do not tell what is stored.
var beside = map[annals.PersistenceID]string{
	"r-actor":          "1-103 last 103", // the calls were those of an actor
	"f-unprocessed-SH": "1-102 last 102", // the call for event 100 is without payload
	"h-gap":            "1-3 last 3",     // a group is empty, and no high mark tells of the next: the plugin's caller left out 247 numbers
	"h-sl2":            "last 100",       // all events are deleted and the low mark is lost: nothing tells of the numbers above the high mark
}

// The layout reads from the plugins' tables what was acknowledged and not deleted.
func TestGoldenRead(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.system+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			s.read(t, newBench(t, s.layout(), s.tables...), s.models(""), s.expected)
			if s.before != nil {
				s.read(t, newBench(t, s.layout(), s.before...), s.models(s.system), s.expectedBefore)
			}
		})
	}
}

func (s *scenario) read(t *testing.T, b *bench, models map[annals.PersistenceID]*model, expected expected) {
	t.Helper()
	found := map[annals.PersistenceID]string{}
	for id, e := range expected.PersistenceIDs {
		if e.Journal == nil {
			if text := s.readEvents(t, b, id, models[id], e); text != "" {
				found[id] = text
			}
		}
		s.readSnapshots(t, b, id, e)
	}
	want := map[annals.PersistenceID]string{}
	maps.Copy(want, lost[s.name])
	if s.system == "akka1-old" {
		maps.Copy(want, old[s.name])
	}
	if !maps.Equal(found, want) {
		t.Errorf("the plugin read %v, want %v", found, want)
	}
}

func (s *scenario) readEvents(t *testing.T, b *bench, id annals.PersistenceID, m *model, e entity) (plugin string) {
	t.Helper()
	b.T = t
	if m == nil {
		m = &model{}
	}
	events, last := b.replay(id, 1, annals.MaxSeqNr, math.MaxInt64), b.last(id)
	ours := show(numbers(events), last)
	var all []annals.SeqNr
	for _, kept := range m.replay(1, annals.MaxSeqNr, math.MaxInt64) {
		all = append(all, kept.SeqNr)
		i := slices.IndexFunc(events, func(e annals.Event) bool { return e.SeqNr == kept.SeqNr })
		if i >= 0 && !same(events[i], kept, e) {
			t.Errorf("%q: read %+v, want %+v", id, events[i], kept)
		}
	}
	if want := show(all, m.last()); ours != want && ours != beside[id] {
		t.Errorf("%q: read %s, want %s", id, ours, want)
	}
	for _, w := range slices.Concat(e.Windows, e.CurrentEvents) {
		if w.Max == 0 && len(w.SeqNrs)+len(w.Envelopes) > 0 {
			w.Max = math.MaxInt64 // a query has no limit
		}
		var want []annals.SeqNr
		w.From = max(w.From, 1)
		for _, kept := range m.replay(w.From, w.To, w.Max) {
			want = append(want, kept.SeqNr)
		}
		if got := numbers(b.replay(id, w.From, w.To, w.Max)); !slices.Equal(got, want) {
			t.Errorf("%q from %d to %d, %d at most: %v, want %v", id, w.From, w.To, w.Max, got, want)
		}
	}
	if plugin := show(numbersOf(e), e.Highest); plugin != ours {
		return plugin
	}
	return ""
}

func same(got annals.Event, want stored, e entity) bool {
	at := time.Time{}
	for _, theirs := range e.Events {
		if theirs.SeqNr == got.SeqNr && theirs.Timestamp > 0 {
			at = time.UnixMilli(theirs.Timestamp).UTC()
		}
	}
	return samePayload(got.Payload, want.payload) && got.Adapter == want.AdapterManifest && got.WriteID.String() == want.writer && got.Time.Equal(at)
}

func samePayload(p annals.Payload, want payload) bool {
	return p.SerializerID == want.SerializerID && p.Manifest == want.Manifest && want.Data != nil && bytes.Equal(p.Data, *want.Data)
}

func (c criteria) ours() annals.SnapshotCriteria {
	o := annals.SnapshotCriteria{MinSeqNr: c.MinSeqNr, MaxSeqNr: min(c.MaxSeqNr, c.To)}
	if c.MinTimestamp > 0 {
		o.MinTime = time.UnixMilli(c.MinTimestamp)
	}
	if c.MaxTimestamp < math.MaxInt64 {
		o.MaxTime = time.UnixMilli(c.MaxTimestamp)
	}
	return o
}

// filtered are the snapshots that the plugin does not find, because it reads one snapshot by its number and then looks at the time.
var filtered = map[annals.PersistenceID]annals.SeqNr{"snap-1": 10}

// readSnapshots compares the newest snapshots by time with what the plugin loaded, and those by number with what was saved.
func (s *scenario) readSnapshots(t *testing.T, b *bench, id annals.PersistenceID, e entity) {
	t.Helper()
	l := s.layout()
	l.Snapshot.ByTime = true
	byTime := b.reopened(l)
	for _, c := range e.Snapshots {
		if c.MaxSeqNr == 0 || c.To == 0 {
			continue // nothing has such a number; our criteria cannot ask for it
		}
		got, ok, err := byTime.Snapshots.Latest(t.Context(), id, c.ours())
		switch bounded := c.MaxSeqNr < annals.MaxSeqNr && c.MaxTimestamp < math.MaxInt64; {
		case bounded && c.Snapshot == nil && filtered[id] != 0:
			if err != nil || got.SeqNr != filtered[id] {
				t.Errorf("snapshot of %q by %+v: %d, %v, want %d", id, c.criteria, got.SeqNr, err, filtered[id])
			}
		case err != nil || ok != (c.Snapshot != nil):
			t.Errorf("snapshot of %q by %+v: %+v, %v, %v, want %+v", id, c.criteria, got, ok, err, c.Snapshot)
		case ok && (got.SeqNr != c.Snapshot.SeqNr || got.Time.UnixMilli() != c.Snapshot.Timestamp || !samePayload(got.Payload, *c.Snapshot)):
			t.Errorf("snapshot of %q by %+v: %+v, want %+v", id, c.criteria, got, *c.Snapshot)
		}
		got, ok, err = b.Snapshots.Latest(t.Context(), id, c.ours())
		want, some := s.newest(id, c.criteria)
		if err != nil || ok != some || ok && (got.SeqNr != want.SeqNr || got.Time.UnixMilli() != want.Timestamp || !samePayload(got.Payload, want)) {
			t.Errorf("snapshot of %q by %+v: %+v, %v, %v, want %+v", id, c.criteria, got, ok, err, want)
		}
	}
}

// Ids are listed, also those whose first events are deleted, which the plugin does not list.
func TestGoldenIDs(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		if s.name != "persistence-ids" {
			continue
		}
		b := newBench(t, s.layout(), s.tables...)
		want := slices.Concat(s.expected.CurrentPersistenceIDs.Query, []annals.PersistenceID{"head-deleted", "all-deleted"})
		slices.Sort(want)
		if got := listed(t, b.Queries, "", ""); !slices.Equal(got, want) {
			t.Errorf("%s: ids %q, want %q", s.system, got, want)
		}
	}
}
