package dynamostore

import (
	"context"
	"errors"
	"net/url"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/grouped"
	"github.com/annals-go/annals/dynamostore/hashkey"
	"github.com/annals-go/annals/dynamostore/headed"
	"github.com/annals-go/annals/dynamostore/headtable"
	"github.com/annals-go/annals/dynamostore/sharded"
	"github.com/annals-go/annals/internal/storeurl"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// OpenURL opens a URL such as dynamodb:?layout=commit&table=annals; it is a function for annals.Openers. The parameters are fields of
// Options, ClientOptions and the layout, and replace those of o. docs/stores/urls.md lists them. Credentials come from the
// SDK's default chain.
func (o Options) OpenURL(ctx context.Context, u *url.URL) (annals.Store, error) {
	settings, err := o.fromURL(u)
	if err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	client, err := NewClient(ctx, settings.client)
	if err != nil {
		return nil, err
	}
	clients := []aws.HTTPClient{client.Options().HTTPClient}
	if o := &settings.store.Subscriptions; o.Table != "" && o.Streams == nil {
		streams, err := NewStreamsClient(ctx, settings.client)
		if err != nil {
			return nil, err
		}
		o.Streams, clients = streams, append(clients, streams.Options().HTTPClient)
	}
	s, err := Open(ctx, client, settings.layout, settings.store)
	if err != nil {
		for _, c := range clients {
			steady{c}.CloseIdleConnections()
		}
		return nil, err // a nil *Store would not be a nil annals.Store
	}
	s.clients = clients
	return s, nil
}

// settings are the parameters of a URL.
type settings struct {
	client ClientOptions
	layout Layout
	store  Options
}

// fromURL returns the settings of u, with the fields of o where u has no parameter.
func (o Options) fromURL(u *url.URL) (s settings, err error) {
	p := storeurl.Parse(u)
	p.Text("region", &s.client.Region)
	p.Text("endpoint", &s.client.Endpoint)
	storeurl.Number(p, "connections", &s.client.MaxConnections)
	if o.MaxInFlight == 0 {
		o.MaxInFlight = s.client.MaxConnections
	}
	p.Flag("create", &o.CreateTables)
	storeurl.Number(p, "read_units", &o.Provisioned.ReadUnits)
	storeurl.Number(p, "write_units", &o.Provisioned.WriteUnits)
	p.Flag("streams", &o.Streams)
	p.Text("subscriptions", &o.Subscriptions.Table)
	p.Duration("subscription_lease", &o.Subscriptions.Lease)
	storeurl.Number(p, "max_in_flight", &o.MaxInFlight)
	storeurl.Number(p, "attempts", &o.Attempts)
	p.Flag("strict", &o.Strict)
	s.store = o
	layout := commitFromURL
	storeurl.Choice(p, "layout", &layout, map[string]func(*storeurl.Parameters) Layout{"commit": commitFromURL, "sharded": shardedFromURL, "grouped": groupedFromURL, "hashkey": hashkeyFromURL, "headed": headedFromURL, "headtable": headtableFromURL})
	s.layout = layout(p)
	if err = p.Err(); u.User != nil || u.Host != "" || u.Path != "" || u.Opaque != "" {
		err = errors.Join(err, errors.New("there is text between dynamodb: and the ?"))
	}
	return s, err
}

func commitFromURL(p *storeurl.Parameters) Layout {
	l := commit.Layout{}
	p.Text("table", &l.Table)
	p.Text("index", &l.Index)
	p.Flag("fill_index", &l.FillIndex)
	p.Duration("lateness", &l.Lateness)
	return l
}

func shardedFromURL(p *storeurl.Parameters) Layout {
	l := sharded.Layout{}
	storeurl.Number(p, "shards", &l.ShardCount)
	storeurl.Choice(p, "read_through", &l.ReadThrough, map[string]sharded.ReadThrough{"keys": sharded.Keys, "index": sharded.Index})
	p.Flag("no_index", &l.NoIndex)
	p.List("other_columns", &l.OtherColumns)

	j := &l.Journal
	p.Text("journal", &j.Table)
	p.Flag("journal.off", &j.Off)
	p.Text("journal.index", &j.Index)
	storeurl.Number(p, "journal.shards", &j.ShardCount)
	partitionKey(p, "journal.partition_key", &j.PartitionKey)
	sortKey(p, "journal.sort_key", &j.SortKey)
	p.Text("journal.separator", &j.Separator)
	p.Text("journal.tag_separator", &j.TagSeparator)
	p.Flag("journal.hard_delete", &j.HardDelete)
	p.Text("journal.columns.partition_key", &j.Columns.PartitionKey)
	p.Text("journal.columns.sort_key", &j.Columns.SortKey)
	p.Text("journal.columns.persistence_id", &j.Columns.PersistenceID)
	p.Text("journal.columns.sequence_nr", &j.Columns.SequenceNr)
	p.Text("journal.columns.deleted", &j.Columns.Deleted)
	p.Text("journal.columns.message", &j.Columns.Message)
	p.Text("journal.columns.ordering", &j.Columns.Ordering)
	p.Text("journal.columns.tags", &j.Columns.Tags)

	s := &l.Snapshot
	p.Text("snapshot", &s.Table)
	p.Flag("snapshot.off", &s.Off)
	p.Text("snapshot.index", &s.Index)
	storeurl.Number(p, "snapshot.shards", &s.ShardCount)
	partitionKey(p, "snapshot.partition_key", &s.PartitionKey)
	sortKey(p, "snapshot.sort_key", &s.SortKey)
	p.Text("snapshot.separator", &s.Separator)
	p.Flag("snapshot.legacy", &s.Legacy)
	p.Text("snapshot.columns.partition_key", &s.Columns.PartitionKey)
	p.Text("snapshot.columns.sort_key", &s.Columns.SortKey)
	p.Text("snapshot.columns.persistence_id", &s.Columns.PersistenceID)
	p.Text("snapshot.columns.sequence_nr", &s.Columns.SequenceNr)
	p.Text("snapshot.columns.snapshot", &s.Columns.Snapshot)
	p.Text("snapshot.columns.created", &s.Columns.Created)

	d := &l.State
	p.Text("state", &d.Table)
	p.Flag("state.off", &d.Off)
	p.List("state.prefixes", &d.Prefixes)
	p.Text("state.table_prefix", &d.TablePrefix)
	storeurl.Number(p, "state.shards", &d.ShardCount)
	p.Text("state.separator", &d.Separator)
	p.Text("state.tag_separator", &d.TagSeparator)
	p.Flag("state.no_sort_key", &d.NoSortKey)
	storeurl.Choice(p, "state.revision", &d.Revision, map[string]sharded.Revision{"plus_one": sharded.PlusOne, "same": sharded.Same})
	p.Flag("state.tombstones", &d.Tombstones)
	p.Text("state.columns.partition_key", &d.Columns.PartitionKey)
	p.Text("state.columns.sort_key", &d.Columns.SortKey)
	p.Text("state.columns.persistence_id", &d.Columns.PersistenceID)
	p.Text("state.columns.revision", &d.Columns.Revision)
	p.Text("state.columns.payload", &d.Columns.Payload)
	p.Text("state.columns.serializer_id", &d.Columns.SerializerID)
	p.Text("state.columns.serializer_manifest", &d.Columns.SerializerManifest)
	p.Text("state.columns.ordering", &d.Columns.Ordering)
	p.Text("state.columns.tags", &d.Columns.Tags)
	p.Text("state.columns.deleted", &d.Columns.Deleted)
	return l
}

func groupedFromURL(p *storeurl.Parameters) Layout {
	l := grouped.Layout{}
	j := &l.Journal
	p.Text("journal", &j.Table)
	p.Flag("journal.off", &j.Off)
	p.Text("journal.name", &j.Name)
	storeurl.Number(p, "journal.sequence_shards", &j.SequenceShards)
	p.Flag("journal.old", &j.Old)
	p.Text("journal.id_index", &j.IDIndex)
	storeurl.Number(p, "journal.replay_ahead", &j.ReplayAhead)
	p.Flag("journal.gaps", &j.Gaps)
	p.List("journal.other_names", &j.OtherNames)

	s := &l.Snapshot
	p.Text("snapshot", &s.Table)
	p.Flag("snapshot.off", &s.Off)
	p.Text("snapshot.name", &s.Name)
	p.Text("snapshot.index", &s.Index)
	p.Flag("snapshot.old", &s.Old)
	p.Flag("snapshot.by_time", &s.ByTime)
	return l
}

func hashkeyFromURL(p *storeurl.Parameters) Layout {
	l := hashkey.Layout{}
	p.Text("table", &l.Table)
	p.Text("journal_name", &l.JournalName)
	storeurl.Number(p, "sequence_shards", &l.SequenceShards)
	p.Flag("permanent", &l.Permanent)
	p.List("other_names", &l.OtherNames)
	return l
}

func headedFromURL(p *storeurl.Parameters) Layout {
	l := headed.Layout{}
	storeurl.Choice(p, "peer", &l.Peer, map[string]headed.Peer{"go": headed.Go, "js": headed.JS, "js3": headed.JS3, "rust": headed.Rust, "rust3": headed.Rust3, "java": headed.Java, "seed": headed.Seed})
	storeurl.Number(p, "shards", &l.Shards)
	storeurl.Choice(p, "aid", &l.AID, map[string]headed.AIDForm{"type_value": headed.TypeValue, "value": headed.Value})
	p.List("types", &l.Types)
	p.Text("journal", &l.Journal.Table)
	p.Text("journal.index", &l.Journal.Index)
	p.Duration("journal.occurred_at", &l.Journal.OccurredAt)
	p.Flag("journal.gaps", &l.Journal.Gaps)
	p.Text("snapshot", &l.Snapshot.Table)
	p.Text("snapshot.index", &l.Snapshot.Index)
	p.Text("snapshot.active_index", &l.Snapshot.ActiveIndex)
	storeurl.Number(p, "snapshot.keep", &l.Snapshot.Keep)
	p.Duration("snapshot.expire", &l.Snapshot.Expire)
	p.Flag("lean", &l.Lean)
	p.Flag("write_ids", &l.WriteIDs)
	storeurl.Choice(p, "format", &l.Format, map[string]headed.Format{"plain": headed.Plain{}})
	return l
}

func headtableFromURL(p *storeurl.Parameters) Layout {
	l := headtable.Layout{}
	p.Text("journal", &l.Journal.Table)
	p.Flag("journal.gaps", &l.Journal.Gaps)
	p.Text("snapshot", &l.Snapshot.Table)
	p.Text("snapshot.index", &l.Snapshot.Index)
	storeurl.Number(p, "snapshot.keep", &l.Snapshot.Keep)
	p.Duration("snapshot.expire", &l.Snapshot.Expire)
	p.Text("head", &l.Head)
	p.Flag("write_ids", &l.WriteIDs)
	return l
}

func partitionKey(p *storeurl.Parameters, name string, to *sharded.PartitionKey) {
	storeurl.Choice(p, name, to, map[string]sharded.PartitionKey{
		"persistence_id": sharded.PersistenceIDBased, "sequence_number": sharded.SequenceNumberBased})
}

func sortKey(p *storeurl.Parameters, name string, to *sharded.SortKey) {
	storeurl.Choice(p, name, to, map[string]sharded.SortKey{
		"persistence_id_with_seq_nr": sharded.ByPersistenceIDWithSeqNr, "seq_nr": sharded.BySeqNr, "seq_nr_padded": sharded.BySeqNrPadded,
		"number": sharded.ByNumber})
}
