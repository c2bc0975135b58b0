package esa_test

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// bench is a layout on tables in memory.
type bench struct {
	*testing.T
	*plantest.Executor
	plan.Contracts
	offer plan.Offer
}

func newBench(t *testing.T, l esa.Layout, tables ...plantest.Dump) *bench {
	t.Helper()
	b := on(t, l, nil)
	for _, table := range tables {
		for _, it := range table.Items {
			b.put(table.Table.TableName, plan.Item(it))
		}
	}
	return b
}

func on(t *testing.T, l esa.Layout, x *plantest.Executor) *bench {
	t.Helper()
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if x == nil {
		x = plantest.New(offer.Tables)
	}
	return &bench{t, x, offer.On(x), offer}
}

// reopened returns a bench of another layout on the same tables.
func (b *bench) reopened(l esa.Layout) *bench { return on(b.T, l, b.Executor) }

// put stores an item as another program does.
func (b *bench) put(table string, it plan.Item) {
	b.Helper()
	if _, err := b.Write(b.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: it}}}); err != nil {
		b.Fatal(err)
	}
}

// replay returns all events.
func (b *bench) replay(id annals.PersistenceID) (events []annals.Event) {
	b.Helper()
	for e, err := range b.Journal.Replay(b.Context(), id, 1, annals.MaxSeqNr) {
		if err != nil {
			b.Errorf("replay of %q: %v", id, err)
			return events
		}
		events = append(events, e)
	}
	return events
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

// stored returns the events of an id whose rows are in the tables, by number: the newest that was written with this number.
func (s *scenario) stored(id aggregateID) map[annals.SeqNr]event {
	all := map[annals.SeqNr]event{}
	for _, it := range s.tables[0].Items {
		n, _ := plan.Number(plan.Item(it), "seq_nr")
		if n > 0 && s.holds(plan.Item(it), id) {
			all[annals.SeqNr(n)] = event{}
		}
	}
	for i, step := range s.inputs.Steps {
		e := step.Event
		if _, ok := all[e.SeqNr]; ok && e.AggregateID == id && (s.expected.Results[i].OK || all[e.SeqNr].ID == "") {
			all[e.SeqNr] = e
		}
	}
	return all
}

var shard = regexp.MustCompile("^-[0-9]+$")

// holds reports whether a row is of an id: its partition key begins with the type, and its aid is that of the id.
func (s *scenario) holds(it plan.Item, id aggregateID) bool {
	aid, _ := plan.Text(it, "aid")
	pkey, _ := plan.Text(it, "pkey")
	rest, ofType := strings.CutPrefix(pkey, id.Type)
	return (aid == id.Type+"-"+id.Value || s.inputs.Read.Settings.AidForm == "value" && aid == id.Value) &&
		(ofType && shard.MatchString(rest) || strings.HasPrefix(pkey, "k:"+id.Type+":"))
}

// Every event that is in the tables is read, and the state of the head.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.system+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			l := s.inputs.Read.Settings.layout(systems[s.system])
			b, events := newBench(t, l, s.tables...), 0
			for _, id := range s.inputs.Read.IDs {
				l := l
				if id == (aggregateID{"order", "item-1"}) { // shares its aid with order-item|1
					l.Types = []string{"user-account"}
				}
				if s.replaced(id) {
					if err := replayError(b, id.pid()); !errors.Is(err, annals.ErrCorrupt) {
						t.Errorf("%q: %v", id, err)
					}
					l.Journal.Gaps = true
				}
				events += s.read(b.reopened(l), id)
			}
			if events == 0 {
				t.Error("no events")
			}
		})
	}
}

// replaced reports whether event 2 of id was replaced: there are two events, and the head has counted three.
func (s *scenario) replaced(id aggregateID) bool {
	return s.name == "conflicts" && unguarded(systems[s.system]) && id.Value == "taken-number"
}

// unguarded reports whether a library replaces events.
func unguarded(p esa.Peer) bool { return p == esa.Rust || p == esa.Rust3 || p == esa.Java }

func replayError(b *bench, id annals.PersistenceID) (failed error) {
	for _, err := range b.Journal.Replay(b.Context(), id, 1, annals.MaxSeqNr) {
		failed = err
	}
	return failed
}

// read compares what is read of an id with what is stored, and returns the number of its events.
func (s *scenario) read(b *bench, id aggregateID) int {
	b.Helper()
	if len(id.Value) > 1000 { // its keys are too long for DynamoDB
		if _, err := b.Journal.LastSeqNr(b.Context(), id.pid()); !errors.Is(err, annals.ErrInvalid) {
			b.Errorf("an id of %d bytes: %v", len(id.pid()), err)
		}
		return 0
	}
	want, got, last := s.stored(id), b.replay(id.pid()), annals.SeqNr(0)
	for n := range want {
		last = max(last, n)
	}
	counted := last
	if s.replaced(id) {
		counted++
	}
	if have := b.last(id.pid()); have != counted || len(got) != len(want) {
		b.Errorf("%q: last number %d, events %v, want %d events, the last %d", id, have, numbers(got), len(want), counted)
	}
	for _, e := range got {
		w := want[e.SeqNr]
		if p := s.event(w); e.Manifest != p.Manifest || !bytes.Equal(e.Data, p.Data) {
			b.Errorf("%q: event %d is %q %.300s, want %q %.300s", id, e.SeqNr, e.Manifest, e.Data, p.Manifest, p.Data)
		}
		if at, times := at(w.OccurredAt), systems[s.system] != esa.JS; times && !e.Time.Equal(at) || !times && !e.Time.IsZero() {
			b.Errorf("%q: event %d has the time %v, want %v", id, e.SeqNr, e.Time, at)
		}
	}
	s.recover(b, id, last, counted)
	return len(got)
}

// recover reads the state of the head and the events after it.
func (s *scenario) recover(b *bench, id aggregateID, end, last annals.SeqNr) {
	b.Helper()
	want := s.state(id)
	if want != nil {
		end, last = max(end, want.SeqNr), max(last, want.SeqNr) // the state of snapshot-ahead is of event 50, and the last event is 2: a library continues with 51
	}
	var state annals.Snapshot
	next := annals.SeqNr(1)
	got, err := b.Recover(b.Context(), id.pid(), func(s annals.Snapshot) error {
		state, next = s, s.SeqNr+1
		return nil
	}, func(e annals.Event) error {
		if e.SeqNr < next {
			b.Errorf("%q: event %d after %d", id, e.SeqNr, next-1)
		}
		next = e.SeqNr + 1
		return nil
	})
	switch {
	case want != nil && want.AggregateID != id && systems[s.system] != esa.Rust3: // the state of another aggregate; those of Rust 3 have no id
		if !errors.Is(err, annals.ErrCorrupt) {
			b.Errorf("%q: a state of %q: %v", id, want.AggregateID, err)
		}
	case err != nil || got != last || next != end+1:
		b.Errorf("%q: recovered to %d, last number %d, %v, want %d and %d", id, next-1, got, err, end, last)
	case want != nil:
		if p := s.payload(*want); state.SeqNr != want.SeqNr || !bytes.Equal(state.Data, p.Data) {
			b.Errorf("%q: state %d %.300s, want %d %.300s", id, state.SeqNr, state.Data, want.SeqNr, p.Data)
		}
	case state.SeqNr != 0:
		b.Errorf("%q: state %d, want none", id, state.SeqNr)
	}
}

// state returns the state of an id that was written last; nil when there is none.
func (s *scenario) state(id aggregateID) (last *aggregate) {
	for i, step := range s.inputs.Steps {
		kept := s.expected.Results[i].OK || s.expected.Results[i].stored()
		if step.Aggregate != nil && step.Event.AggregateID == id && kept && s.shards(i) == s.inputs.Read.Settings.ShardCount {
			last = step.Aggregate
			if systems[s.system] == esa.Rust3 { // the state has the number of its event
				a := *last
				a.SeqNr = step.Event.SeqNr
				last = &a
			}
		}
	}
	return last
}

// stored reports whether a write was stored although the library returned an error: that of the retention.
func (r result) stored() bool {
	return !r.OK && slices.Contains([]string{"IOError", "*event_store_adapter_go.IOError"}, r.Error.Class)
}

// shards returns the shard count with which a step was made.
func (s *scenario) shards(step int) (count int) {
	for _, earlier := range s.inputs.Steps[:step] {
		if earlier.Op == "open" {
			count = earlier.Settings.ShardCount
		}
	}
	return count
}

// Rows of one language are refused by the settings of another: by the check of the tables, and for each id whose partition key is another. The
// error names the key.
func TestGoldenOfAnotherLanguage(t *testing.T) {
	t.Parallel()
	for system := range systems {
		s := named(t, system, "default")
		for other, peer := range systems {
			t.Run(system+" by "+other, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, s.inputs.Read.Settings.layout(peer), s.tables...)
				theirs, differ := named(t, other, "default"), 0
				for _, id := range s.inputs.Read.IDs {
					stored, expected := s.partition(id), theirs.partition(id)
					last, err := b.Journal.LastSeqNr(b.Context(), id.pid())
					switch {
					case stored == expected && (err != nil || last != annals.SeqNr(len(s.stored(id)))):
						t.Errorf("%q in %s: last number %d, %v", id, stored, last, err)
					case stored != expected && (!errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), stored)):
						t.Errorf("%q in %s, looked for in %s: %v", id, stored, expected, err)
					}
					if stored != expected {
						differ++
					}
				}
				wrong := differ > 0 || system == "esa-rust-3" && other == "esa-rust" // the times of Rust 3 have another unit
				if err := b.offer.Check(b.Context(), b, false); errors.Is(err, annals.ErrInvalid) != wrong || (err == nil) == wrong {
					t.Errorf("%d ids have other keys: %v", differ, err)
				}
			})
		}
	}
}

// partition returns the partition key of the head of id; "" when there is none.
func (s *scenario) partition(id aggregateID) string {
	for _, it := range s.tables[1].Items {
		if s.holds(plan.Item(it), id) {
			return plan.KeyText(it["pkey"])
		}
	}
	return ""
}

// Rows of another shard count are refused, and so is the creation of an aggregate that has some.
func TestGoldenOfAnotherShardCount(t *testing.T) {
	t.Parallel()
	for system, peer := range systems {
		s := named(t, system, "shard-count-changed")
		id := s.inputs.Read.IDs[0]
		for shards, want := range map[int]error{64: nil, 61: nil, 10: annals.ErrInvalid} { // the library has created the aggregate twice
			settings := s.inputs.Read.Settings
			settings.ShardCount = shards
			b := newBench(t, settings.layout(peer), s.tables...)
			last, err := b.Journal.LastSeqNr(b.Context(), id.pid())
			if !errors.Is(err, want) || err == nil && last != 2 || err != nil && !strings.Contains(err.Error(), `"UserAccount-`) {
				t.Errorf("%s with %d shards: last number %d, %v, want %v", system, shards, last, err, want)
			}
		}
	}
}
