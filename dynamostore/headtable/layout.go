package headtable

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout describes the tables of the library. The zero Layout has the names that its documentation uses, and keeps no copies of snapshots.
type Layout struct {
	Journal  Journal
	Snapshot Snapshot
	Head     string // the table of heads; "head"
	// WriteIDs stores the WriteID of a commit with its events, in the attribute write_id. Then an Append that a caller sends again is recognised,
	// until a DeleteTo removes the events.
	WriteIDs bool
}

// Journal describes the journal table.
type Journal struct {
	Table string // "journal"
	// Gaps says that numbers without events between others are no error. The library leaves no number unused, but version 3 did, and its tables can
	// be migrated with their gaps.
	Gaps bool
}

// Snapshot describes the table of snapshots. It has the current snapshot of each entity and, with Keep, copies of earlier ones.
type Snapshot struct {
	Table string // "snapshot"
	Index string // the index of the copies; "snapshot-history-index"
	Keep  int    // how many copies of an entity stay, the newest ones. Each save makes a copy. 0 makes none, and leaves those that exist
	// Expire is how long an older copy stays: it gets the time of its end in the attribute ttl, for the expiry of the table. Whole seconds. 0 deletes older
	// copies at once.
	Expire time.Duration
}

// Name is "headtable".
func (Layout) Name() string { return "headtable" }

// maxEvents is the most events of a commit: a transaction of DynamoDB has at most 100 items, and the others are the head, the current snapshot
// and its copy.
const maxEvents = 97

// Plan implements dynamostore.Layout. Programs do not call it.
func (l Layout) Plan() (plan.Offer, error) {
	var faults []error
	if l.Snapshot.Keep < 0 {
		faults = append(faults, fmt.Errorf("snapshot: %d copies are kept", l.Snapshot.Keep))
	}
	if e := l.Snapshot.Expire; e < 0 || e%time.Second != 0 || e > 0 && l.Snapshot.Keep == 0 {
		faults = append(faults, fmt.Errorf("snapshot: copies expire after %v, and %d are kept", e, l.Snapshot.Keep))
	}
	if err := errors.Join(faults...); err != nil {
		return plan.Offer{}, err
	}
	s := snapshots{table: cmp.Or(l.Snapshot.Table, "snapshot"), index: cmp.Or(l.Snapshot.Index, "snapshot-history-index"), keep: l.Snapshot.Keep, expire: l.Snapshot.Expire}
	j := journal{table: cmp.Or(l.Journal.Table, "journal"), heads: cmp.Or(l.Head, "head"), gaps: l.Journal.Gaps, writeIDs: l.WriteIDs, times: &plan.Times{}}
	return plan.Offer{
		Tables: []plan.Table{j.shape(), s.shape(), {Name: j.heads, Hash: plan.Key{Name: attrAID}, Stream: true}},
		Capabilities: annals.Capabilities{Events: true, Snapshots: true, CommitSnapshot: true, Times: true, EventTimes: true, FenceAfterDelete: true, Skips: true, Repeatable: l.WriteIDs,
			Limits: annals.Limits{MaxEvents: maxEvents, MaxIDBytes: maxAID}},
		Check: configuration{[]string{j.table, s.table, j.heads}}.check,
		On: func(x plan.Executor) plan.Contracts {
			s, j := s, j
			s.x, j.x, j.snapshots = x, x, &s
			return plan.Contracts{Journal: &j, Snapshots: &s, Recoverer: &j, Skipper: &j}
		},
		Feed: &plan.Feed{Table: j.heads, Events: headEvents, Owner: headOwner, Scan: j.scan},
	}, nil
}

// shape is the table of the library.
func (j *journal) shape() plan.Table {
	return plan.Table{Name: j.table, Hash: plan.Key{Name: attrAID}, Range: plan.Key{Name: attrSeq, Number: true}}
}

// shape is the table of the library.
func (s *snapshots) shape() plan.Table {
	hash := plan.Key{Name: attrAID}
	return plan.Table{Name: s.table, Hash: hash, Range: plan.Key{Name: attrPlace, Number: true},
		Indexes: []plan.Index{{Name: s.index, Hash: hash, Range: plan.Key{Name: attrActive, Number: true}, KeysOnly: true}}}
}
