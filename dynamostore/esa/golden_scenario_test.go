package esa_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// systems are the archives of testdata. Their tables were written by the libraries themselves: event-store-adapter-go v1.0.10, -js 2.2.94 and
// 3.1.1-snapshot.5, -rs 1.3.17 and 3.0.6. The texts of 100,000 letters in scenario replay-1mb are cut to 1,000.
var systems = map[string]esa.Peer{"esa-go": esa.Go, "esa-js": esa.JS, "esa-js-3": esa.JS3, "esa-rust": esa.Rust, "esa-rust-3": esa.Rust3}

// scenario is a sequence of calls of a library, the tables that the library wrote, and what the library then read.
type scenario struct {
	system, name string
	inputs       struct {
		Steps []step
		Read  struct {
			Settings settings
			IDs      []aggregateID
		}
	}
	tables   []plantest.Dump
	expected struct {
		Results    []result
		Aggregates []struct {
			ID             aggregateID
			Events         []struct{ SeqNr annals.SeqNr }
			LatestSnapshot *struct{ SeqNr, Version annals.SeqNr }
		}
	}
}

type step struct {
	Op          string
	Settings    settings
	Event       event
	Aggregate   *aggregate // persistEventAndSnapshot
	Version     annals.SeqNr
	AggregateID aggregateID
	Since       annals.SeqNr
}

type settings struct {
	JournalTable, SnapshotTable, JournalAidIndex, SnapshotAidIndex, SnapshotActiveTTLIndex string
	ShardCount                                                                             int
	KeepSnapshotCount                                                                      int
	DeleteTTLSeconds                                                                       int64
	Resolver, AidForm                                                                      string
}

type aggregateID struct{ Type, Value string }

func (a aggregateID) pid() annals.PersistenceID { return annals.NewPersistenceID(a.Type, a.Value) }

// event is an event as the test program of the library has it. In a payload the members have the names of its own.
type event struct {
	Type        string
	ID          string
	AggregateID aggregateID
	SeqNr       annals.SeqNr
	IsCreated   bool
	OccurredAt  string
	Body        json.RawMessage
}

type aggregate struct {
	AggregateID   aggregateID
	SeqNr         annals.SeqNr
	Version       annals.SeqNr
	LastUpdatedAt string
	Body          json.RawMessage
}

type result struct {
	OK     bool
	Error  struct{ Class string }
	Result json.RawMessage
}

var read struct {
	once sync.Once
	all  []*scenario
}

// scenarios reads the archives: one entry for each scenario of each library.
func scenarios(t *testing.T) []*scenario {
	t.Helper()
	read.once.Do(func() { read.all = readScenarios(t) })
	return read.all
}

func readScenarios(t *testing.T) (all []*scenario) {
	t.Helper()
	for _, system := range slices.Sorted(maps.Keys(systems)) {
		byName := map[string]*scenario{}
		for file, data := range plantest.Archive(t, "testdata/"+system+".tar.bz2") {
			name := file[0]
			if name == system {
				continue // defects.json
			}
			if byName[name] == nil {
				byName[name] = &scenario{system: system, name: name}
			}
			s := byName[name]
			into := map[string]any{"settings.json": new(any), "inputs.json": &s.inputs, "tables.json": &s.tables, "expected.json": &s.expected}[file[1]]
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatalf("%s, %s: %v", system, file, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			all = append(all, byName[name])
		}
	}
	if len(all) != 72 {
		t.Fatalf("%d scenarios", len(all))
	}
	return all
}

// named returns the scenario of a library.
func named(t *testing.T, system, name string) *scenario {
	t.Helper()
	all := scenarios(t)
	return all[slices.IndexFunc(all, func(s *scenario) bool { return s.system == system && s.name == name })]
}

// layout returns the Layout for the library's settings.
func (s settings) layout(p esa.Peer) esa.Layout {
	l := esa.Layout{
		Peer: p, Shards: s.ShardCount, Types: []string{"user-account", "order-item"},
		Journal: esa.Journal{Table: s.JournalTable, Index: s.JournalAidIndex},
		Snapshot: esa.Snapshot{Table: s.SnapshotTable, Index: s.SnapshotAidIndex,
			Keep: s.KeepSnapshotCount, Expire: time.Duration(s.DeleteTTLSeconds) * time.Second},
	}
	if p == esa.JS3 {
		l.Snapshot.ActiveIndex = s.SnapshotActiveTTLIndex
	}
	if s.AidForm == "value" {
		l.BareAID = true
	}
	if s.Resolver == "padded" {
		l.Keys = padded(p != esa.JS3)
	}
	return l
}

// padded is the key resolver of scenario resolver. That of JS 3.1.1 chooses the shard only.
func padded(texts bool) (r esa.KeyResolver) {
	r.PartitionKey = func(entityType, value string, shards int) string {
		sum := 0
		for _, b := range []byte(value) {
			sum += int(b)
		}
		if !texts {
			return fmt.Sprintf("%s-%d", entityType, sum%shards)
		}
		return fmt.Sprintf("k:%s:%d", entityType, sum%shards)
	}
	if texts {
		r.SortKey = func(entityType, value string, n annals.SeqNr) string {
			return fmt.Sprintf("k:%s:%s:%010d", entityType, value, n)
		}
	}
	return r
}

// event returns the payload of e as a program has it: JSON with the members of the test program of the library. That of Rust 3 has the body alone.
func (s *scenario) event(e event) annals.Payload {
	if s.system == "esa-rust-3" {
		return annals.Payload{SerializerID: 31, Manifest: e.Type, Data: s.body(e.Body)}
	}
	data := fmt.Sprintf(`{"type":%q,"id":%q,"aggregate_id":%s,"seq_nr":%d,"is_created":%v,"occurred_at":%q,"body":%s}`,
		e.Type, e.ID, e.AggregateID.json(), e.SeqNr, e.IsCreated, e.OccurredAt, s.body(e.Body))
	return annals.Payload{SerializerID: 31, Manifest: e.Type, Data: []byte(data)}
}

// payload is event for a state.
func (s *scenario) payload(a aggregate) annals.Payload {
	if s.system == "esa-rust-3" {
		return annals.Payload{SerializerID: 31, Manifest: a.AggregateID.Type, Data: s.body(a.Body)}
	}
	data := fmt.Sprintf(`{"id":%s,"seq_nr":%d,"version":%d,"last_updated_at":%q,"body":%s}`, a.AggregateID.json(), a.SeqNr, a.Version, a.LastUpdatedAt, s.body(a.Body))
	return annals.Payload{SerializerID: 31, Manifest: a.AggregateID.Type, Data: []byte(data)}
}

// body returns JSON as the library's language writes it.
func (s *scenario) body(text json.RawMessage) []byte {
	var out, escaped bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		panic(err) // the archive is JSON
	}
	if s.system != "esa-go" {
		return out.Bytes()
	}
	json.HTMLEscape(&escaped, out.Bytes())
	return escaped.Bytes()
}

func (a aggregateID) json() []byte {
	return fmt.Appendf(nil, `{"type":%q,"value":%q}`, a.Type, a.Value)
}

// at is a time of the archive.
func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}
