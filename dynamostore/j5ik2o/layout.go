package j5ik2o

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout describes the tables of the j5ik2o plugin. The zero Layout is the plugin's default since version 1.12. docs/layouts/j5ik2o.md
// lists the settings for tables of older versions.
type Layout struct {
	ShardCount int // of each table that has no other; 0 is 64
	Journal    Journal
	Snapshot   Snapshot
	State      State
	// ByIndex finds events and snapshots through the index, and those that the index does not have yet by computed keys. It is for tables whose
	// rows have keys of several settings, such as an older resolver or another shard count. Without it reads are by computed keys, strongly
	// consistent, if the resolvers allow it, and through the index otherwise.
	ByIndex bool
	// NoIndex says that the tables of events and snapshots have no index. It is for tables that the plugin does not read. The index
	// has one partition key for all events of an entity, which limits how fast the entity can be written; without the index only the
	// shards do. Reads are then by key, and rows whose key does not fit the settings are not noticed.
	NoIndex bool
	// OtherColumns are attributes of rows that are not columns of the plugin. Open refuses a table in which no row has tags, or no
	// state has a manifest, while rows have an unknown string attribute: that may be the column under another name.
	OtherColumns []string
}

// Journal describes the journal table. Zero fields are the plugin's defaults.
type Journal struct {
	Off          bool   // there is no journal table
	Table        string // "Journal"
	Index        string // "GetJournalRowsIndex"
	Columns      JournalColumns
	ShardCount   int // 0 = Layout.ShardCount
	PartitionKey PartitionKey
	SortKey      SortKey
	Separator    string // between the parts of a persistence id, a Java regular expression as in the plugin; "-"
	TagSeparator string // ","
	// HardDelete removes rows instead of flagging them. The newest is kept, and the first, emptied, of an entity in several partitions.
	// FenceAfterDelete is then not claimed.
	HardDelete bool
}

// JournalColumns are names of attributes; "" is the plugin's.
type JournalColumns struct {
	PartitionKey, SortKey, PersistenceID, SequenceNr, Deleted, Message, Ordering, Tags string
}

// Snapshot describes the snapshot table. Zero fields are the plugin's defaults.
type Snapshot struct {
	Off          bool   // there is no snapshot table
	Table        string // "Snapshot"
	Index        string // "GetSnapshotRowsIndex"
	Columns      SnapshotColumns
	ShardCount   int
	PartitionKey PartitionKey
	SortKey      SortKey
	Separator    string
	Legacy       bool // the table of the versions before 1.9, with persistence id and sequence number as keys
}

// SnapshotColumns are names of attributes; "" is the plugin's.
type SnapshotColumns struct {
	PartitionKey, SortKey, PersistenceID, SequenceNr, Snapshot, Created string
}

// State describes the durable-state table. Zero fields are the plugin's defaults.
type State struct {
	Off          bool     // there is no state table
	Table        string   // "State"
	Prefixes     []string // an id with one of these prefixes is in the table of that name (the plugin's TableNameResolver$Prefix)
	TablePrefix  string   // prefix of those names
	Columns      StateColumns
	ShardCount   int
	Separator    string
	TagSeparator string // between the tags of a state; "" is at most one tag, stored as it is, as the plugin does
	// NoSortKey says that the table has no sort key, as in the versions before 1.14. An id that shares its key with another is refused.
	NoSortKey bool
	// SameRevision says that stored revisions are those of writers, as the plugin's client V1 stores them. Its client V2 stores one more.
	SameRevision bool
	// Tombstones allows deletes of states, and SkipStateTo: a deleted state keeps a row without payload, so that its revisions never
	// repeat. The plugin cannot read such rows: it removes the row, and begins again at revision 1. Without Tombstones a delete is
	// ErrUnsupported.
	Tombstones bool
}

// StateColumns are names of attributes; "" is the plugin's.
type StateColumns struct {
	PartitionKey, SortKey, PersistenceID, Revision, Payload, SerializerID, SerializerManifest, Ordering, Tags, Deleted string
}

// A transaction of DynamoDB has at most 100 items, a partition key at most 2,048 bytes, a sort key at most 1,024.
const (
	maxEvents       = 100
	maxPartitionKey = 2048
	maxSortKey      = 1024
)

// Plan implements dynamostore.Layout. Programs do not call it.
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
	var samples []plan.Sample
	offer := plan.Offer{Name: "j5ik2o", Capabilities: annals.Capabilities{Limits: annals.Limits{MaxEvents: maxEvents, MaxIDBytes: maxPartitionKey}}}
	c := &offer.Capabilities
	if !l.Journal.Off {
		table := j.rows.shape()
		table.Stream = true
		offer.Tables = append(offer.Tables, table)
		samples = append(samples, j.settings().sample())
		c.Limits.MaxIDBytes = min(c.Limits.MaxIDBytes, j.rows.resolver.maxID())
		c.Events, c.Tags, c.Metadata, c.Times, c.Repeatable, c.FenceAfterDelete = true, true, true, true, true, !l.Journal.HardDelete
	}
	if !l.Snapshot.Off {
		offer.Tables = append(offer.Tables, s.rows.shape())
		samples = append(samples, s.settings().sample())
		c.Limits.MaxIDBytes = min(c.Limits.MaxIDBytes, s.rows.resolver.maxID())
		c.Snapshots, c.ManySnapshots = true, true
	}
	if !l.State.Off {
		offer.States, offer.StatesIn, offer.Reserved = st, st.statesIn, st.reserved()
		offer.Additional = func(column string) { st.other[column] = true }
		for _, name := range st.Tables() {
			offer.Tables, samples = append(offer.Tables, st.shape(name)), append(samples, st.settings(name).sample())
		}
		c.States, c.StateMetadata = true, true
		offer.SkipStateTo = st.skip()
		c.DeletesStates = l.State.Tombstones
	}
	c.GuardsReads = l.Journal.Off && c.States || c.FenceAfterDelete
	offer.Check = plan.Compare(samples...)
	offer.Row = func(table string, it plan.Item) (annals.PersistenceID, *ability.Damage) {
		switch {
		case table == j.rows.Name && !l.Journal.Off:
			return j.settings().owned(it, j.columns.SequenceNr)
		case table == s.rows.Name && !l.Snapshot.Off:
			return s.settings().owned(it, s.columns.SequenceNr)
		}
		return st.settings(table).owned(it, st.columns.Revision)
	}
	offer.On = func(x plan.Executor) plan.Contracts {
		j, s := *j, *s
		j.Reads = func(id annals.PersistenceID) driver.Reader { return &reader{journal: &j, id: id} }
		if j.rows.x, s.rows.x = x, x; !l.Journal.Off {
			s.events = &j.rows
		}
		if !l.Snapshot.Off {
			j.snapshots = &s
		}
		return plan.Contracts{Journal: &j, Snapshots: &s, Recoverer: &j, Skipper: &j, Guard: j.guard}
	}
	return offer, nil
}

// indexFault returns an error when the settings need an index but NoIndex is set.
func (l Layout) indexFault(j *journal, s *snapshots) error {
	switch {
	case !l.NoIndex:
		return nil
	case l.ByIndex:
		return errors.New("ByIndex and NoIndex exclude each other")
	case !l.Journal.Off && !j.rows.resolver.ordered():
		return errors.New("journal: NoIndex needs resolvers by whose keys rows can be read: Keys of the partition key, an Ordered sort key")
	case !l.Snapshot.Off && !s.rows.resolver.ordered():
		return errors.New("snapshot: NoIndex needs resolvers by whose keys rows can be read: Keys of the partition key, an Ordered sort key")
	}
	return nil
}

// ids returns nil for tables without an index.
func (l Layout) ids() *numbered.IDs {
	if l.NoIndex {
		return nil
	}
	return numbered.NewIDs()
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
	j := &journal{times: &plan.Times{}, tagSeparator: cmp.Or(c.TagSeparator, ","), hard: c.HardDelete, other: l.other()}
	j.columns = filled(c.Columns, JournalColumns{PartitionKey: "pkey", SortKey: "skey", PersistenceID: "persistence-id", SequenceNr: "sequence-nr", Deleted: "deleted",
		Message: "message", Ordering: "ordering", Tags: "tags"})
	r, err := l.resolver("journal", c.PartitionKey, c.SortKey, c.ShardCount, c.Separator)
	r.partition, r.sort = j.columns.PartitionKey, j.columns.SortKey
	if r.sortKey.number {
		r.sort = j.columns.SequenceNr
	}
	j.rows = newRows(cmp.Or(c.Table, "Journal"), cmp.Or(c.Index, "GetJournalRowsIndex"), r, j.columns.PersistenceID, j.columns.SequenceNr, l.ids())
	j.rows.Deleted, j.rows.dense, j.rows.byIndex, j.rows.first, j.rows.skipped = j.columns.Deleted, true, l.ByIndex, true, j.skipped
	return j, errors.Join(err, distinct("journal", j.columns.PartitionKey, j.columns.PersistenceID, j.columns.SequenceNr, j.columns.Deleted, j.columns.Message, j.columns.Ordering, j.columns.Tags))
}

func (l Layout) snapshots() (*snapshots, error) {
	c := l.Snapshot
	s := &snapshots{legacy: c.Legacy}
	s.columns = filled(c.Columns, SnapshotColumns{PartitionKey: "pkey", SortKey: "skey", PersistenceID: "persistence-id", SequenceNr: "sequence-nr", Snapshot: "snapshot", Created: "created"})
	r, err := l.resolver("snapshot", c.PartitionKey, c.SortKey, c.ShardCount, c.Separator)
	r.partition, r.sort = s.columns.PartitionKey, s.columns.SortKey
	ids := l.ids()
	if c.Legacy {
		r, ids = legacyResolver(s.columns), nil
	}
	s.rows = newRows(cmp.Or(c.Table, "Snapshot"), cmp.Or(c.Index, "GetSnapshotRowsIndex"), r, s.columns.PersistenceID, s.columns.SequenceNr, ids)
	s.rows.byIndex = l.ByIndex && !c.Legacy
	return s, errors.Join(err, distinct("snapshot", s.columns.PersistenceID, s.columns.SequenceNr, s.columns.Snapshot, s.columns.Created))
}

func (l Layout) states() (*states, error) {
	c := l.State
	s := &states{name: cmp.Or(c.Table, "State"), prefixes: c.Prefixes, tablePrefix: c.TablePrefix, tagSeparator: c.TagSeparator, noSortKey: c.NoSortKey, tombstones: c.Tombstones, other: l.other(), times: &plan.Times{}}
	s.columns = filled(c.Columns, StateColumns{PartitionKey: "pkey", SortKey: "skey", PersistenceID: "persistence-id", Revision: "revision-nr", Payload: "payload",
		SerializerID: "serializer-id", SerializerManifest: "serializer-manifest", Ordering: "ordering", Tags: "tags", Deleted: "deleted"})
	if !c.SameRevision {
		s.plus = 1
	}
	var err error
	s.resolver, err = l.resolver("state", idBased, SortKey{}, c.ShardCount, c.Separator)
	return s, errors.Join(err, distinct("state", s.reserved()...))
}

// resolver returns the resolver of a table.
func (l Layout) resolver(what string, p PartitionKey, s SortKey, shardCount int, separator string) (resolver, error) {
	r, err := newResolver(p, s, Sharding{Count: cmp.Or(shardCount, l.ShardCount), Separator: cmp.Or(separator, "-")})
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return r, err
}

// filled returns names with the fields of standard where a field is "".
func filled[C any](names, standard C) C {
	for f, v := range reflect.ValueOf(&names).Elem().Fields() {
		if v.IsZero() {
			v.Set(reflect.ValueOf(standard).FieldByIndex(f.Index))
		}
	}
	return names
}

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
