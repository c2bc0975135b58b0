package headed

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/aggregateid"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout describes the tables of an event-store-adapter library.
type Layout struct {
	Peer   Peer // the library whose rows are written
	Shards int  // the shard count that the library's program has; required
	// Keys makes the keys of rows. nil is the formula of the Peer, with Shards.
	Keys KeyResolver
	AID  AIDForm // what the attribute aid has; Value is refused together with Keys
	// Types are the entity types whose names contain "-". An id of such a type that is not listed is ErrInvalid, and so is an id with
	// the same aggregate id as one of a listed type.
	Types    []string
	Journal  Journal
	Snapshot Snapshot
	// Lean says that heads have no state: snapshots are in rows of their own, and the first commit needs none. An event then costs
	// the same whatever the size of the state. It is for tables that no library reads.
	Lean bool
	// WriteIDs says that events have an attribute write_id, so that a repeated Append is recognised. The libraries ignore it. A delete
	// then leaves rows with nothing but key, time and write_id, which no index has. Lean sets WriteIDs.
	WriteIDs bool
	// Format makes the stored payloads. nil is the form of the Peer's own payloads; with Lean it is Plain.
	Format Format
}

// Journal describes the journal table. Zero fields are the names that the libraries' documents use.
type Journal struct {
	Table string // "journal"
	Index string // "journal-aid-index"
	// OccurredAt is the unit of the attribute occurred_at: a nanosecond, microsecond, millisecond or second; 0 is that of the Peer. Programs
	// of the Go library choose the unit themselves. NewEvent.Time is kept in it.
	OccurredAt time.Duration
	// Gaps says that numbers without events between others are no error, and that numbers are looked for in the index. Without Gaps
	// a hole is ErrCorrupt when there are fewer events than the head has counted. Set it for tables in which a program has left numbers
	// unused.
	Gaps bool
}

// Snapshot describes the snapshot table. Zero fields are the names that the libraries' documents use.
type Snapshot struct {
	Table string // "snapshot"
	Index string // "snapshot-aid-index"
	// ActiveIndex is the index of copies that do not expire, by active_ttl_seq_nr. "" is "snapshot-active-ttl-index" for JS3, and no
	// index for others.
	ActiveIndex string
	Keep        int           // how many copies of states are kept; 0 is none
	Expire      time.Duration // how long copies that are no longer kept stay, by the attribute ttl; 0 deletes them at once
}

// Name is "headed".
func (Layout) Name() string { return "headed" }

// Plan implements dynamostore.Layout. Programs do not call it.
func (l Layout) Plan() (plan.Offer, error) {
	r, err := l.rows()
	if err == nil {
		err = l.snapshotFaults()
	}
	if err != nil {
		return plan.Offer{}, err
	}
	table, heads := l.tables()
	events := r.numbers(table)
	s := l.snapshots(r, events, heads)
	j := &journal{rows: r, events: events, heads: heads.Name, gaps: l.Journal.Gaps, times: &plan.Times{},
		tried: &plan.Recent[annals.WriteID, time.Time]{}, ahead: &plan.Recent[annals.PersistenceID, annals.SeqNr]{}}
	offer := plan.Offer{Tables: []plan.Table{table, heads}, Capabilities: annals.Capabilities{Events: true, Snapshots: true, CommitSnapshot: true, ManySnapshots: s.keep > 1,
		Times: r.unit != 0, EventTimes: r.unit != 0, Repeatable: r.writeIDs, FenceAfterDelete: true, Skips: l.Lean, Limits: annals.Limits{MaxEvents: maxEvents, MaxIDBytes: maxID, FirstSnapshot: !l.Lean}}}
	offer.Check = plan.Compare(j.sample(j.events.Name), j.sample(j.heads))
	offer.Feed = &plan.Feed{Table: j.events.Name, Events: j.inserted, Owner: j.events.OwnerOf, Scan: j.scan, Counts: true}
	offer.On = func(x plan.Executor) plan.Contracts {
		j, s := *j, *s
		j.x, s.x, j.snapshots = x, x, &s
		c := plan.Contracts{Journal: &j, Snapshots: &s, Recoverer: &j}
		if l.Lean {
			c.Skipper = &j
		}
		return c
	}
	return offer, nil
}

// rows returns how the rows of both tables are made.
func (l Layout) rows() (rows, error) {
	if l.Peer < 0 || int(l.Peer) >= len(peers) {
		return rows{}, fmt.Errorf("the peer is %d", l.Peer)
	}
	p := peers[l.Peer]
	r := rows{keys: keys{rule: aggregateid.Rule{Types: l.Types, Form: aggregateid.Form(l.AID)}, resolver: l.Keys, shards: l.Shards},
		peer: p, unit: cmp.Or(l.Journal.OccurredAt, p.unit), format: l.Format, lean: l.Lean, writeIDs: l.WriteIDs || l.Lean}
	if r.resolver == nil {
		r.resolver = resolver{p, l.AID}
	}
	if r.format == nil {
		r.format = p.format
		if l.Lean {
			r.format = Plain{}
		}
	}
	_, r.plain = r.format.(Plain)
	_, r.formula = r.resolver.(resolver)
	var faults []error
	if l.Shards < 1 {
		faults = append(faults, fmt.Errorf("%d shards", l.Shards))
	}
	switch l.Journal.OccurredAt {
	case 0, time.Nanosecond, time.Microsecond, time.Millisecond, time.Second:
	default:
		faults = append(faults, fmt.Errorf("the unit of times is %v", l.Journal.OccurredAt))
	}
	if l.AID != TypeValue && (l.AID != Value || l.Keys != nil) {
		faults = append(faults, errors.New("AID is TypeValue, or Value without Keys"))
	}
	return r, errors.Join(faults...)
}

// tables returns the shapes of the journal and the snapshot table.
func (l Layout) tables() (journal, snapshot plan.Table) {
	aid := plan.Key{Name: attrAID}
	byNumber := func(name string) plan.Index {
		return plan.Index{Name: name, Hash: aid, Range: plan.Key{Name: attrSeq, Number: true}}
	}
	hash, sort := plan.Key{Name: attrPartition}, plan.Key{Name: attrSort}
	journal = plan.Table{Name: cmp.Or(l.Journal.Table, "journal"), Hash: hash, Range: sort, Stream: true,
		Indexes: []plan.Index{byNumber(cmp.Or(l.Journal.Index, "journal-aid-index"))}}
	snapshot = plan.Table{Name: cmp.Or(l.Snapshot.Table, "snapshot"), Hash: hash, Range: sort,
		Indexes: []plan.Index{byNumber(cmp.Or(l.Snapshot.Index, "snapshot-aid-index"))}}
	if active := l.activeIndex(); active != "" {
		snapshot.Indexes = append(snapshot.Indexes, plan.Index{Name: active, Hash: aid, Range: plan.Key{Name: attrActive, Number: true}, KeysOnly: true})
	}
	return journal, snapshot
}

func (l Layout) activeIndex() string { return cmp.Or(l.Snapshot.ActiveIndex, peers[l.Peer].active) }

// numbers are the rows of t by id and number. seq_nr of a row is the number in its key, except in heads.
func (r rows) numbers(t plan.Table) numbered.Table {
	return numbered.Table{Name: t.Name, Index: t.Indexes[0].Name, Hash: attrPartition, Range: attrSort, ID: attrAID, Number: attrSeq, Key: r.key, IDs: numbered.NewIDs(),
		Hashed: r.aid, Owner: func(it plan.Item) annals.PersistenceID {
			n, _ := plan.Number(it, attrSeq)
			return r.owner(it, annals.SeqNr(n))
		},
		Advice: ". Set the Peer, the Shards, the Keys and the AID of the program that wrote the row"}
}

// maxEvents is for a transaction of at most 100 items: the head, a copy and the current row of lean heads are three of them.
const maxEvents = 97
