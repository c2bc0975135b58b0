package esa

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout describes the tables of an event-store-adapter library.
type Layout struct {
	Peer   Peer // the library whose rows are written
	Shards int  // the shard count that the library's program has; required, but for Rust5
	// Keys makes the keys of rows. Zero is the formula of the Peer, with Shards.
	Keys KeyResolver
	// BareAID says that the attribute aid has the value of an id alone, for ids of Rust whose display text is their value. Then only the key
	// tells the type, so it is ErrInvalid together with Keys. Without it the attribute has the type, "-" and the value.
	BareAID bool
	// Types are the entity types whose names contain "-". An id of such a type that is not listed is ErrInvalid, and so is an id with
	// the same aggregate id as one of a listed type. The tables of Rust5 have no such types.
	Types    []string
	Journal  Journal
	Snapshot Snapshot
	Head     string // the table of heads, which Rust5 has; "head"
	// WriteIDs says that events have an attribute write_id, so that a repeated Append is recognised. The libraries ignore it. A delete
	// then leaves rows with nothing but key, time and write_id, which no index has. In the tables of Rust5 it leaves none: there a
	// commit that was deleted is recognised as long as it is the last one.
	WriteIDs bool
	// Format makes the stored payloads. The zero Format is that of the Peer's own payloads. Rust5 has no other.
	Format Format
}

// Journal describes the journal table. Zero fields are the names that the libraries' documents use.
type Journal struct {
	Table string // "journal"
	Index string // "journal-aid-index"; the tables of Rust5 have none
	// OccurredAt is the unit of the attribute occurred_at: a nanosecond, microsecond, millisecond or second; 0 is that of the Peer. Programs
	// of the Go library choose the unit themselves. NewEvent.Time is kept in it.
	OccurredAt time.Duration
	// Gaps says that numbers without events are no error, and that numbers are looked for in the index. No number up to the version of the
	// head is used again. Without Gaps a hole is ErrCorrupt when there are fewer events than the head has counted. Set it for tables in which
	// a program has left numbers unused, and for tables of Rust5 that were made from such tables.
	Gaps bool
}

// Snapshot describes the snapshot table. Zero fields are the names that the libraries' documents use.
type Snapshot struct {
	Table string // "snapshot"
	Index string // "snapshot-aid-index"; the tables of Rust5 have none
	// ActiveIndex is the index of copies that do not expire. "" is "snapshot-active-ttl-index" for JS3, "snapshot-history-index" for Rust5, and
	// no index for others.
	ActiveIndex string
	Keep        int           // how many copies of states are kept; 0 is none
	Expire      time.Duration // how long copies that are no longer kept stay, by the attribute ttl, in whole seconds; 0 deletes them at once
}

// Plan implements dynamostore.Layout. Programs do not call it.
func (l Layout) Plan() (plan.Offer, error) {
	if err := l.faults(); err != nil {
		return plan.Offer{}, err
	}
	r, tables := l.rows(), l.tables()
	j := &journal{rows: r, events: r.numbers(tables[0]), heads: tables[len(tables)-1].Name, gaps: l.Journal.Gaps, times: &plan.Times{},
		tried: &plan.Recent[annals.WriteID, time.Time]{}, ahead: &plan.Recent[annals.PersistenceID, annals.SeqNr]{}}
	c := copies{rows: r, shape: tables[1], active: l.activeIndex(), keep: l.Snapshot.Keep, expire: l.Snapshot.Expire}
	offer := plan.Offer{Name: "esa", Tables: tables, Check: plan.Compare(j.sample(j.events.Name), j.sample(j.heads)), Row: j.owned,
		Capabilities: annals.Capabilities{Events: true, Snapshots: true, CommitSnapshot: true, ManySnapshots: c.keep > 1 && !r.apart, Times: r.unit != 0, EventTimes: r.unit != 0,
			Repeatable: r.writeIDs, FenceAfterDelete: true, GuardsReads: r.apart || !j.gaps, Limits: annals.Limits{MaxEvents: maxEvents, MaxIDBytes: maxID, FirstSnapshot: !r.apart}},
		Feed: &plan.Feed{Table: j.events.Name, Events: j.inserted, Owner: j.events.OwnerOf, Scan: j.scan, Counts: true}}
	if r.apart {
		offer.Check = configuration{tables}.check
		offer.Capabilities.Limits.MaxIDBytes = maxAID
		offer.Feed = &plan.Feed{Table: j.heads, Events: j.lastEvents, Owner: j.events.OwnerOf, Scan: j.scan}
	}
	offer.On = func(x plan.Executor) plan.Contracts {
		j, c := *j, c
		j.x, c.x, j.Reads = x, x, j.reader
		contracts := plan.Contracts{Journal: &j, Recoverer: &j, Guard: j.guard, Audit: j.audit}
		if r.apart {
			j.snapshots, contracts.Skipper = &apartSnapshots{c}, &j
		} else {
			j.snapshots = &snapshots{copies: c, events: j.events}
		}
		contracts.Snapshots = j.snapshots
		return contracts
	}
	return offer, nil
}

// faults returns all that is wrong with the settings.
func (l Layout) faults() error {
	if l.Peer < 0 || int(l.Peer) >= len(peers) {
		return fmt.Errorf("the peer is %d", l.Peer)
	}
	var faults []error
	wrong := func(is bool, text string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf(text, args...))
		}
	}
	apart, s := peers[l.Peer].apart, l.Snapshot
	wrong(apart && (l.Shards != 0 || l.Keys.isSet() || l.BareAID || l.Types != nil || l.Format.isSet() || l.Journal.Index != "" || l.Journal.OccurredAt != 0 || s.Index != ""),
		"the tables of %s have no Shards, Keys, BareAID, Types, Format, OccurredAt, Journal.Index and Snapshot.Index", peers[l.Peer].name)
	wrong(!apart && l.Head != "", "the tables of %s have no table of heads", peers[l.Peer].name)
	wrong(!apart && l.Shards < 1, "Shards is %d, and must be the shard count of the library's program (shards= in a URL)", l.Shards)
	switch l.Journal.OccurredAt {
	case 0, time.Nanosecond, time.Microsecond, time.Millisecond, time.Second:
	default:
		wrong(true, "the unit of times is %v", l.Journal.OccurredAt)
	}
	wrong(l.BareAID && l.Keys.isSet(), "BareAID and Keys exclude each other")
	wrong(s.Keep < 0 || s.Expire < 0 || s.Expire%time.Second != 0, "snapshot: Keep or Expire is negative, or Expire is not in whole seconds")
	wrong(s.Keep > 0 && l.Peer == Seed, "snapshot: the tables of %s have no copies, and Keep is not 0", peers[l.Peer].name)
	wrong(s.Expire > 0 && s.Keep == 0, "snapshot: Expire is of copies, and Keep is 0")
	wrong(l.Format.unnumbered && !peers[l.Peer].stateNr, "format: without the member SeqNr nothing tells the number of a state")
	return errors.Join(faults...)
}

// rows returns how the rows of the tables are made.
func (l Layout) rows() rows {
	p := peers[l.Peer]
	r := rows{keys: keys{aids: aids{l.Types, l.BareAID}, resolver: l.Keys.of(p, l.BareAID), shards: l.Shards, apart: p.apart}, peer: p, unit: cmp.Or(l.Journal.OccurredAt, p.unit), format: l.Format.or(p.format), writeIDs: l.WriteIDs}
	r.formula = !l.Keys.isSet()
	return r
}

// tables returns the shapes of the journal, the snapshot table and, for Rust5, the table of heads.
func (l Layout) tables() []plan.Table {
	aid, hash, sort := plan.Key{Name: attrAID}, plan.Key{Name: attrPartition}, plan.Key{Name: attrSort}
	number := plan.Key{Name: attrSeq, Number: true}
	journal := plan.Table{Name: cmp.Or(l.Journal.Table, "journal"), Hash: hash, Range: sort, Stream: true,
		Indexes: []plan.Index{{Name: cmp.Or(l.Journal.Index, "journal-aid-index"), Hash: aid, Range: number}}}
	snapshot := plan.Table{Name: cmp.Or(l.Snapshot.Table, "snapshot"), Hash: hash, Range: sort,
		Indexes: []plan.Index{{Name: cmp.Or(l.Snapshot.Index, "snapshot-aid-index"), Hash: aid, Range: number}}}
	tables := []plan.Table{journal, snapshot}
	if peers[l.Peer].apart {
		sort.Number = true
		tables = []plan.Table{{Name: journal.Name, Hash: aid, Range: number}, {Name: snapshot.Name, Hash: aid, Range: sort}, {Name: cmp.Or(l.Head, "head"), Hash: aid, Stream: true}}
	}
	if active := l.activeIndex(); active != "" {
		tables[1].Indexes = append(tables[1].Indexes, plan.Index{Name: active, Hash: aid, Range: plan.Key{Name: peers[l.Peer].attrActive(), Number: true}, KeysOnly: true})
	}
	return tables
}

func (l Layout) activeIndex() string { return cmp.Or(l.Snapshot.ActiveIndex, peers[l.Peer].active) }

// numbers are the events in t by id and number.
func (r rows) numbers(t plan.Table) numbered.Table {
	n := numbered.Table{Name: t.Name, Hash: t.Hash.Name, Range: t.Range.Name, ID: attrAID, Number: attrSeq, Key: r.key, Hashed: r.aid, Owner: func(it plan.Item) annals.PersistenceID {
		n, _ := plan.Number(it, attrSeq)
		return r.owner(it, annals.SeqNr(n))
	}, Advice: ". Set the Peer, the Shards, the Keys and the BareAID of the program that wrote the row"}
	if !r.apart {
		n.Index, n.IDs = t.Indexes[0].Name, numbered.NewIDs()
	}
	return n
}

// maxEvents is for a transaction of at most 100 items: the head, the newest state of Rust5 and a copy of it are three of them.
const maxEvents = 97
