package sharded

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout is the tables of the j5ik2o plugin. The zero Layout is the plugin's default since version 1.12; docs/layouts/sharded.md
// lists what older versions need.
type Layout struct {
	ShardCount int // of every table that does not say otherwise; 0 = 64
	Journal    Journal
	Snapshot   Snapshot
	State      State
	// ReadThrough is how events and snapshots are found. Index is for tables whose rows have keys of more than one
	// setting: an older resolver, another shard count.
	ReadThrough ReadThrough
	// NoIndex says that the tables of events and snapshots have no index: for tables that the plugin does not read. The
	// index has one partition key for all events of an entity, so only without it the shards bound how fast an entity is
	// written. Then reads are by key, and there is no index to ask whether a row has another key than the settings make.
	NoIndex bool
	// OtherColumns are attributes of rows that the layout is to leave alone. Open refuses a string attribute that it does not
	// know where no row has tags, or no state a manifest: that column may have another name.
	OtherColumns []string
}

// ReadThrough says how rows are found.
type ReadThrough int

const (
	// Keys reads by computed keys, strongly consistent, where the resolvers allow it; through the index elsewhere.
	Keys ReadThrough = iota
	// Index reads through the index and completes what it lags behind by computed keys.
	Index
)

// Journal is the journal table. Zero fields are the plugin's defaults.
type Journal struct {
	Off          bool   // there is no such table
	Table        string // "Journal"
	Index        string // "GetJournalRowsIndex"
	Columns      JournalColumns
	ShardCount   int // 0 = Layout.ShardCount
	PartitionKey PartitionKey
	SortKey      SortKey
	Separator    string // between the parts of a persistence id, a Java regular expression as in the plugin; "-"
	TagSeparator string // ","
	HardDelete   bool   // rows are removed instead of flagged; then a writer behind a delete is not fenced
}

// JournalColumns are attribute names; "" is the plugin's.
type JournalColumns struct {
	PartitionKey, SortKey, PersistenceID, SequenceNr, Deleted, Message, Ordering, Tags string
}

// Snapshot is the snapshot table. Zero fields are the plugin's defaults.
type Snapshot struct {
	Off          bool
	Table        string // "Snapshot"
	Index        string // "GetSnapshotRowsIndex"
	Columns      SnapshotColumns
	ShardCount   int
	PartitionKey PartitionKey
	SortKey      SortKey
	Separator    string
	Legacy       bool // the table of the versions before 1.9: persistence id and sequence number are its keys
}

// SnapshotColumns are attribute names; "" is the plugin's.
type SnapshotColumns struct {
	PartitionKey, SortKey, PersistenceID, SequenceNr, Snapshot, Created string
}

// State is the durable-state table. Zero fields are the plugin's defaults.
type State struct {
	Off          bool
	Table        string   // "State"
	Prefixes     []string // ids with one of these prefixes have a table of that name (the plugin's TableNameResolver$Prefix)
	TablePrefix  string   // in front of those names
	Columns      StateColumns
	ShardCount   int
	Separator    string
	TagSeparator string // between the tags of a state; "" = one tag at most, stored as it is, as the plugin does
	// NoSortKey is the table of the versions before 1.14. Ids that share a key are refused.
	NoSortKey bool
	// Revision is how stored revisions relate to the writer's: the plugin's client V2 stores one more, V1 the same.
	Revision Revision
	// Tombstones keeps a row without payload for a deleted state, so that its revisions never repeat. The plugin cannot
	// read such rows: only for tables that it no longer reads. Without, deletes are physical, as the plugin's.
	Tombstones bool
}

// StateColumns are attribute names; "" is the plugin's.
type StateColumns struct {
	PartitionKey, SortKey, PersistenceID, Revision, Payload, SerializerID, SerializerManifest, Ordering, Tags, Deleted string
}

// Revision is how the stored revision relates to the writer's.
type Revision int

const (
	// PlusOne is what the plugin's client V2 stores.
	PlusOne Revision = iota
	// Same is what its client V1 stores.
	Same
)

// Name is "sharded".
func (Layout) Name() string { return "sharded" }

// Limits: a transaction has 100 items, and the sort key, which holds an id or most of it, 1,024 bytes.
const (
	maxEvents  = 100
	maxIDBytes = 1000
)

// Plan is dynamostore.Layout.
func (l Layout) Plan() (plan.Offer, error) {
	if l.ShardCount == 0 {
		l.ShardCount = 64
	}
	j, err1 := l.journal()
	s, err2 := l.snapshots()
	st, err3 := l.states()
	if err := errors.Join(err1, err2, err3); err != nil {
		return plan.Offer{}, err
	}
	if err := l.indexFault(j, s); err != nil {
		return plan.Offer{}, err
	}
	var checks []settings
	offer := plan.Offer{Capabilities: annals.Capabilities{Limits: annals.Limits{MaxEvents: maxEvents, MaxIDBytes: maxIDBytes}}}
	c := &offer.Capabilities
	if !l.Journal.Off {
		offer.Journal, offer.SkipTo = j, j.SkipTo
		offer.Recover = recovery{j, s, l.Snapshot.Off}.Recover
		offer.Tables = append(offer.Tables, j.table())
		checks = append(checks, j.settings())
		c.Events, c.Tags, c.Metadata, c.Repeatable, c.FenceAfterDelete = true, true, true, true, !l.Journal.HardDelete
	}
	if !l.Snapshot.Off {
		offer.Snapshots = s
		offer.Tables = append(offer.Tables, s.table())
		checks = append(checks, s.settings())
		c.Snapshots, c.ManySnapshots = true, true
	}
	if !l.State.Off {
		offer.States, offer.StatesIn, offer.Reserved = st, st.statesIn, st.reserved()
		offer.Additional = func(column string) { st.other[column] = true }
		offer.Tables = append(offer.Tables, st.tables()...)
		for _, table := range st.Tables() {
			checks = append(checks, st.settings(table))
		}
		c.States, c.StateMetadata = true, true
		offer.SkipStateTo = st.skip()
	}
	offer.Check = check(checks...)
	return offer, nil
}

// check is plan.Offer.Check: nothing is in new tables.
func check(tables ...settings) func(context.Context, plan.Executor, bool) error {
	return func(ctx context.Context, x plan.Executor, created bool) error {
		for _, t := range tables {
			if created {
				break
			}
			if err := t.check(ctx, x); err != nil {
				return err
			}
		}
		return nil
	}
}

// indexFault says why tables cannot do without an index.
func (l Layout) indexFault(j *journal, s *snapshots) error {
	switch {
	case !l.NoIndex:
		return nil
	case l.ReadThrough == Index:
		return errors.New("ReadThrough: Index and NoIndex exclude each other")
	case !l.Journal.Off && !j.rows.resolver.ordered():
		return errors.New("journal: NoIndex needs resolvers by whose keys rows can be read: Keys of the partition key, an Ordered sort key")
	case !l.Snapshot.Off && !s.rows.resolver.ordered():
		return errors.New("snapshot: NoIndex needs resolvers by whose keys rows can be read: Keys of the partition key, an Ordered sort key")
	}
	return nil
}

// asked is nil where there is no index to ask.
func (l Layout) asked() *asked {
	if l.NoIndex {
		return nil
	}
	return newAsked()
}

func (l Layout) other() map[string]bool {
	names := map[string]bool{}
	for _, name := range l.OtherColumns {
		names[name] = true
	}
	return names
}

func (l Layout) journal() (*journal, error) {
	c := l.Journal
	j := &journal{name: or(c.Table, "Journal"), index: or(c.Index, "GetJournalRowsIndex"), tagSeparator: or(c.TagSeparator, ","), hard: c.HardDelete, columns: c.Columns, other: l.other()}
	fill(&j.columns.PartitionKey, "pkey")
	fill(&j.columns.PersistenceID, "persistence-id")
	fill(&j.columns.SequenceNr, "sequence-nr")
	fill(&j.columns.Deleted, "deleted")
	fill(&j.columns.Message, "message")
	fill(&j.columns.Ordering, "ordering")
	fill(&j.columns.Tags, "tags")
	r, err := newResolver(c.PartitionKey, c.SortKey, Sharding{Count: first(c.ShardCount, l.ShardCount), Separator: or(c.Separator, "-")})
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	r.partition, r.sort = j.columns.PartitionKey, or(j.columns.SortKey, "skey")
	if r.sortKey.number {
		r.sort = j.columns.SequenceNr
	}
	j.rows = rows{table: j.name, index: j.index, resolver: r, id: j.columns.PersistenceID, number: j.columns.SequenceNr, deleted: j.columns.Deleted, dense: true, byIndex: l.ReadThrough == Index, asked: l.asked()}
	return j, distinct("journal", j.columns.PartitionKey, j.columns.PersistenceID, j.columns.SequenceNr, j.columns.Deleted, j.columns.Message, j.columns.Ordering, j.columns.Tags)
}

func (l Layout) snapshots() (*snapshots, error) {
	c := l.Snapshot
	s := &snapshots{name: or(c.Table, "Snapshot"), index: or(c.Index, "GetSnapshotRowsIndex"), columns: c.Columns, legacy: c.Legacy}
	fill(&s.columns.PartitionKey, "pkey")
	fill(&s.columns.SortKey, "skey")
	fill(&s.columns.PersistenceID, "persistence-id")
	fill(&s.columns.SequenceNr, "sequence-nr")
	fill(&s.columns.Snapshot, "snapshot")
	fill(&s.columns.Created, "created")
	r, err := newResolver(c.PartitionKey, c.SortKey, Sharding{Count: first(c.ShardCount, l.ShardCount), Separator: or(c.Separator, "-")})
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	r.partition, r.sort = s.columns.PartitionKey, s.columns.SortKey
	s.rows = rows{table: s.name, index: s.index, resolver: r, id: s.columns.PersistenceID, number: s.columns.SequenceNr, byIndex: l.ReadThrough == Index, asked: l.asked()}
	if c.Legacy {
		s.rows.resolver, s.rows.byIndex, s.rows.asked = legacyResolver(s.columns), false, nil
	}
	return s, distinct("snapshot", s.columns.PersistenceID, s.columns.SequenceNr, s.columns.Snapshot, s.columns.Created)
}

func (l Layout) states() (*states, error) {
	c := l.State
	s := &states{name: or(c.Table, "State"), prefixes: c.Prefixes, tablePrefix: c.TablePrefix, columns: c.Columns, tagSeparator: c.TagSeparator, noSortKey: c.NoSortKey, tombstones: c.Tombstones, other: l.other(), times: &plan.Times{}}
	fill(&s.columns.PartitionKey, "pkey")
	fill(&s.columns.SortKey, "skey")
	fill(&s.columns.PersistenceID, "persistence-id")
	fill(&s.columns.Revision, "revision-nr")
	fill(&s.columns.Payload, "payload")
	fill(&s.columns.SerializerID, "serializer-id")
	fill(&s.columns.SerializerManifest, "serializer-manifest")
	fill(&s.columns.Ordering, "ordering")
	fill(&s.columns.Tags, "tags")
	fill(&s.columns.Deleted, "deleted")
	if c.Revision == PlusOne {
		s.plus = 1
	}
	r, err := newResolver(PersistenceIDBased, SortKey{}, Sharding{Count: first(c.ShardCount, l.ShardCount), Separator: or(c.Separator, "-")})
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	s.resolver = r
	return s, distinct("state", s.reserved()...)
}

func or(s, standard string) string {
	if s == "" {
		return standard
	}
	return s
}

func first(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

func fill(s *string, standard string) { *s = or(*s, standard) }

func distinct(what string, names ...string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("%s: two columns are called %q", what, name)
		}
		seen[name] = true
	}
	return nil
}
