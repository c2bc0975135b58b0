package akka

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout describes the tables of the Akka or Pekko plugin. The zero Layout has the defaults of the Akka plugin; for the defaults of the Pekko
// plugin, set the names of both tables.
type Layout struct {
	Journal  Journal
	Snapshot Snapshot
}

// Journal describes the journal table. Zero fields are the plugin's defaults.
type Journal struct {
	Off   bool   // there is no journal table
	Table string // "akka-persistence"; the default of the Pekko plugin is "pekko-persistence"
	Name  string // the plugin's journal-name, with which all keys begin; "journal"
	// SequenceShards is the plugin's sequence-shards, the number of shards of the markers; 10. It must be at least the greatest value
	// that a writer of the table has ever had.
	SequenceShards int
	// Old writes events in the format of the plugin's versions up to 1.1.1, whose readers know no other. Events of both formats are
	// read whatever Old is.
	Old bool
	// IDIndex is the plugin's index of persistence ids, "persistence-ids-idx" by default there. "" says that the table has none: then
	// ids cannot be listed.
	IDIndex string
	// ReplayAhead is the plugin's replay-parallelism: how many groups of 100 events a replay reads ahead; 0 is 16, where
	// the plugin has 10.
	ReplayAhead int
	// Gaps says that numbers without events between others are no error. The plugin leaves the numbers of events unused that it could
	// not store. They are recognised by the writer ids of the events beside them, but not where a writer of the plugin has only stored
	// one event or batch. There a replay without Gaps is ErrCorrupt. Gaps also accepts events that are lost as other rows prove.
	Gaps bool
	// OtherNames are the names of other journals in the same tables. Open refuses a table if some of its items are of journals
	// with other names, and none is of a journal with Name. In the snapshot table that is Snapshot.Name.
	OtherNames []string
}

// Snapshot describes the snapshot table. Zero fields are the plugin's defaults.
type Snapshot struct {
	Off   bool   // there is no snapshot table
	Table string // "akka-persistence-snapshot"; the default of the Pekko plugin is "pekko-persistence-snapshot"
	// Name is the plugin's journal-name of the snapshot store, with which all keys begin; "" is Journal.Name. With Akka 2.5 the snapshot
	// store can have another name than the journal, because it did not follow a changed journal-name.
	Name  string
	Index string // the index by time; "ts-idx"
	// Old writes snapshots in the format of the plugin's versions up to 1.1.1. Snapshots of both formats are read whatever Old is.
	Old bool
	// ByTime says that the newest snapshot is the one saved last, as in the plugin, and not the one with the highest number.
	ByTime bool
}

// maxEvents is the most events of a commit: a transaction of DynamoDB has at most 100 items, and one of them may be a marker.
const maxEvents = 99

// Plan implements dynamostore.Layout. Programs do not call it.
func (l Layout) Plan() (plan.Offer, error) {
	j, err := l.journal()
	if err != nil {
		return plan.Offer{}, err
	}
	offer := plan.Offer{Name: "akka", Capabilities: annals.Capabilities{Limits: annals.Limits{MaxEvents: maxEvents, MaxIDBytes: j.MaxID(groupOf(annals.MaxSeqNr))}}}
	c, samples := &offer.Capabilities, []plan.Sample(nil)
	if !l.Journal.Off {
		offer.Tables, samples = append(offer.Tables, j.shape()), append(samples, j.Sample())
		c.Events, c.Repeatable, c.IDQueries = true, true, j.index != ""
	}
	s := l.snapshots(j.Name)
	offer.Row = func(table string, it plan.Item) (annals.PersistenceID, *ability.Damage) {
		if table == s.table {
			return s.owned(it)
		}
		owner, _ := owner(it)
		return j.Row(it, owner)
	}
	if !l.Snapshot.Off {
		offer.Tables, samples = append(offer.Tables, s.shape()), append(samples, s.named.Sample())
		c.Snapshots, c.ManySnapshots = true, true
		c.Limits.MaxIDBytes = min(c.Limits.MaxIDBytes, akkakeys.MaxKey-len(s.partition("")))
	}
	offer.Check = plan.Compare(samples...)
	offer.On = func(x plan.Executor) plan.Contracts {
		j, s := *j, *s
		j.x, s.x = x, x
		j.Reads = func(id annals.PersistenceID) driver.Reader { return &reader{journal: &j, id: id} }
		if !l.Snapshot.Off {
			j.snapshots = &s
		}
		c := plan.Contracts{Journal: &j, Snapshots: &s, Queries: ids{journal: &j}, Recoverer: &j, Audit: j.audit}
		if l.Journal.Off {
			c.Journal, c.Audit = nil, nil // functions of the layout are unsupported
		}
		return c
	}
	return offer, nil
}

func (l Layout) journal() (*journal, error) {
	c := l.Journal
	j := &journal{Journal: akkakeys.Journal{Table: cmp.Or(c.Table, "akka-persistence"), Hash: attrPar, Range: attrNum, Number: attrSeq,
		Name: cmp.Or(c.Name, "journal"), Others: c.OtherNames, Shards: int64(cmp.Or(c.SequenceShards, 10)), Step: perGroup},
		index: c.IDIndex, old: c.Old, gaps: c.Gaps, ahead: cmp.Or(c.ReplayAhead, 16), known: &plan.Recent[annals.PersistenceID, known]{}}
	var faults []error
	if j.Shards < 1 {
		faults = append(faults, fmt.Errorf("journal: %d sequence shards", j.Shards))
	}
	if j.ahead < 1 {
		faults = append(faults, fmt.Errorf("journal: a replay reads %d groups ahead", j.ahead))
	}
	return j, errors.Join(faults...)
}

// shape describes the table.
func (j *journal) shape() plan.Table {
	t := plan.Table{Name: j.Table, Hash: plan.Key{Name: attrPar}, Range: plan.Key{Name: attrNum, Number: true}, Stream: true}
	if j.index != "" { // it also fits the plugin's variant whose range key is the partition key of the table
		t.Indexes = []plan.Index{{Name: j.index, Hash: t.Range, KeysOnly: true}}
	}
	return t
}
