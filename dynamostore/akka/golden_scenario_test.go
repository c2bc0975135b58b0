package akka_test

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// systems are the archives. Their tables were written by the plugins themselves: akka-persistence-dynamodb 1.1.1 on Akka 2.5.32, 1.3.0 on Akka
// 2.5.29, and pekko-persistence-dynamodb 1.1.0 on Pekko 1.1.5.
var systems = []string{"akka1-old", "akka1", "pekko1"}

// scenario is a sequence of calls of a plugin, the tables that the plugin wrote, and what the plugin then read.
type scenario struct {
	system, name     string
	settings         struct{ Config map[string]any }
	inputs           struct{ Steps []step }
	tables, before   []plantest.Dump
	expected         expected
	expectedBefore   expected
	expectedByOld    expected
	expectedDistrust expected
	defects          []defect
}

type step struct {
	Op         string
	PID        annals.PersistenceID
	By         string
	WriterUUID string
	Atomic     bool
	Events     []payload
	Result     json.RawMessage
	To         annals.SeqNr
	payload    // of a snapshot; SeqNr is also that of a delete
	criteria   // of a delete of snapshots
	Timestamp  int64
	Par        string
	Num        int64
	Set        map[string]int64
	// In defects.json only:
	FromSeqNr, ToSeqNr, HighestReported annals.SeqNr
	Server                              json.RawMessage // the server misbehaved
}

type payload struct {
	SeqNr           annals.SeqNr
	SerializerID    int32
	Manifest        string
	Data            *[]byte
	DataLength      int
	AdapterManifest string
	WriterUUID      string
	Timestamp       int64
}

type criteria struct {
	MinSeqNr, MaxSeqNr, To     annals.SeqNr
	MinTimestamp, MaxTimestamp int64
}

type expected struct {
	PersistenceIDs        map[annals.PersistenceID]entity
	CurrentPersistenceIDs struct{ Query []annals.PersistenceID }
}

type entity struct {
	Error         string
	Journal       *bool // false: only snapshots were read
	Highest       annals.SeqNr
	Events        []payload
	Windows       []window
	CurrentEvents []window
	Snapshots     []struct {
		criteria
		Snapshot *payload
	}
}

type window struct {
	From, To, Max annals.SeqNr
	SeqNrs        []annals.SeqNr
	Envelopes     []struct{ SeqNr annals.SeqNr }
}

var read struct {
	once sync.Once
	all  []*scenario
}

// scenarios reads the archives.
func scenarios(t *testing.T) []*scenario {
	t.Helper()
	read.once.Do(func() { read.all = readScenarios(t) })
	return read.all
}

func readScenarios(t *testing.T) (all []*scenario) {
	t.Helper()
	for _, system := range systems {
		byName := map[string]*scenario{}
		for file, data := range plantest.Archive(t, "testdata/"+system+".tar.bz2") {
			name := file[0]
			if byName[name] == nil {
				byName[name] = &scenario{system: system, name: name}
			}
			s := byName[name]
			into := map[string]any{"settings.json": &s.settings, "inputs.json": &s.inputs, "tables.json": &s.tables, "tables-before.json": &s.before, "defects.json": &s.defects,
				"expected.json": &s.expected, "expected-before.json": &s.expectedBefore, "expected-by-old.json": &s.expectedByOld, "expected-high-distrust.json": &s.expectedDistrust}[file[1]]
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatalf("%s, %s: %v", system, file, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			all = append(all, byName[name])
		}
	}
	if len(all) != 25 {
		t.Fatalf("%d scenarios", len(all))
	}
	return all
}

// layout returns the Layout for the scenario's settings.
func (s *scenario) layout() akka.Layout {
	l := akka.Layout{Journal: akka.Journal{Table: s.tables[0].Table.TableName, Old: s.system == "akka1-old"},
		Snapshot: akka.Snapshot{Table: s.tables[1].Table.TableName, Old: s.system == "akka1-old"}}
	l.Journal.Name, _ = s.settings.Config["dynamodb-journal.journal-name"].(string)
	if shards, ok := s.settings.Config["dynamodb-journal.sequence-shards"].(float64); ok {
		l.Journal.SequenceShards = int(shards)
	}
	if s.name == "persistence-ids" {
		l.Journal.IDIndex = "persistence-ids-idx"
	}
	return l
}
