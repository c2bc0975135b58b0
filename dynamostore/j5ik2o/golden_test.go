package j5ik2o_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/verify"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

func TestMain(m *testing.M) { dynamo.Main(m) }

// scenario is a sequence of calls of the plugin, the tables that the plugin wrote, and what the plugin then read.
type scenario struct {
	name     string
	settings struct {
		Settings, InitialSettings map[string]any
		Layout                    map[string]any
	}
	tables   []plantest.Dump
	inputs   []step
	expected struct{ PersistenceIDs []entity }
}

type step struct {
	Op           string
	PID          annals.PersistenceID
	WriterUUID   string
	Writes       [][]payload
	Events       []payload
	Atomic       bool
	To           annals.SeqNr
	SeqNr        annals.SeqNr
	Revision     annals.SeqNr
	Snapshot     payload
	State        payload
	Tag          string
	Criteria     criteria
	Set          map[string]any
	ResultOfStep json.RawMessage `json:"result"`
}

type payload struct {
	SeqNr                annals.SeqNr
	SerializerID         int32
	Manifest             string
	Data                 *[]byte
	EventAdapterManifest string
	Tags                 []string
	WriterUUID           string
	Timestamp            int64
}

type criteria struct {
	MinSequenceNr, MaxSequenceNr, ToSequenceNr annals.SeqNr
	MinTimestamp, MaxTimestamp                 int64
}

type entity struct {
	PID     annals.PersistenceID
	Journal *struct {
		Error             json.RawMessage
		HighestSequenceNr annals.SeqNr
		Events            []payload
		Replays           []struct {
			From, To, Max annals.SeqNr
			SeqNrs        []annals.SeqNr
		}
	}
	Snapshots *struct {
		Error          json.RawMessage
		AllNewestFirst []payload
		Criteria       []struct {
			Criteria criteria
			Found    *payload
		}
	}
	State *struct {
		Error    json.RawMessage
		Revision annals.SeqNr
		Value    *payload
		Raw      json.RawMessage
	}
}

// scenarios reads the archive. Its tables were written by the plugin itself, versions 1.1.9, 1.6.1 and 1.16.492.
func scenarios(t *testing.T) map[string]*scenario {
	t.Helper()
	all := map[string]*scenario{}
	for file, data := range plantest.Archive(t, "testdata/j5ik2o.tar.gz") {
		name := file[0]
		if all[name] == nil {
			all[name] = &scenario{name: name}
		}
		s := all[name]
		into := map[string]any{"settings.json": &s.settings, "tables.json": &s.tables, "inputs.json": &s.inputs, "expected.json": &s.expected}[file[1]]
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

// layout returns the Layout for the scenario's settings, with tables whose names begin with prefix.
func (s *scenario) layout(prefix string, settings map[string]any) j5ik2o.Layout {
	text := func(key string) string {
		v, _ := settings["j5ik2o.dynamo-db-"+key].(string)
		return v
	}
	number := func(key string) int {
		v, _ := settings["j5ik2o.dynamo-db-"+key].(float64)
		return int(v)
	}
	partition := func(key string) j5ik2o.PartitionKey {
		if strings.HasSuffix(text(key), "$SequenceNumberBased") || text(key) == "" && strings.HasPrefix(s.name, "v1.") {
			return j5ik2o.SequenceNumberBased
		}
		return j5ik2o.PartitionKey{}
	}
	sort := func(key string) j5ik2o.SortKey {
		if strings.HasSuffix(text(key), "$SeqNr") {
			return j5ik2o.BySeqNr
		}
		return j5ik2o.SortKey{}
	}
	named := func(key, standard string) string {
		if name := text(key); name != "" {
			return prefix + name
		}
		return prefix + standard
	}
	const j, sn, st = "journal.columns-def.", "snapshot.columns-def.", "state.columns-def."
	l := j5ik2o.Layout{
		Journal: j5ik2o.Journal{
			Off: s.settings.Layout["journal"] == "none", Table: named("journal.table-name", "Journal"), Index: text("journal.get-journal-rows-index-name"),
			ShardCount: number("journal.shard-count"), PartitionKey: partition("journal.partition-key-resolver-class-name"), SortKey: sort("journal.sort-key-resolver-class-name"),
			Separator: text("journal.persistence-id-separator"), TagSeparator: text("journal.tag-separator"),
			HardDelete: settings["j5ik2o.dynamo-db-journal.soft-delete"] == false,
			Columns: j5ik2o.JournalColumns{PartitionKey: text(j + "partition-key-column-name"), SortKey: text(j + "sort-key-column-name"), PersistenceID: text(j + "persistence-id-column-name"),
				SequenceNr: text(j + "sequence-nr-column-name"), Deleted: text(j + "deleted-column-name"), Message: text(j + "message-column-name"), Ordering: text(j + "ordering-column-name"), Tags: text(j + "tags-column-name")},
		},
		Snapshot: j5ik2o.Snapshot{
			Off: s.settings.Layout["snapshot"] == "none", Table: named("snapshot.table-name", "Snapshot"), Index: text("snapshot.get-snapshot-rows-index-name"),
			ShardCount: number("snapshot.shard-count"), PartitionKey: partition("snapshot.partition-key-resolver-class-name"), SortKey: sort("snapshot.sort-key-resolver-class-name"),
			Separator: text("snapshot.persistence-id-separator"), Legacy: s.settings.Layout["snapshot"] == "legacy",
			Columns: j5ik2o.SnapshotColumns{PartitionKey: text(sn + "partition-key-column-name"), SortKey: text(sn + "sort-key-column-name"), PersistenceID: text(sn + "persistence-id-column-name"),
				SequenceNr: text(sn + "sequence-nr-column-name"), Snapshot: text(sn + "snapshot-column-name"), Created: text(sn + "created-column-name")},
		},
		State: j5ik2o.State{
			Off: s.settings.Layout["state"] == nil, Table: named("state.table-name", "State"), ShardCount: number("state.shard-count"), NoSortKey: s.settings.Layout["state"] == "pkey",
			Columns: j5ik2o.StateColumns{PartitionKey: text(st + "partition-key-column-name"), SortKey: text(st + "sort-key-column-name"), PersistenceID: text(st + "persistence-id-column-name"),
				Revision: text(st + "revision-nr-column-name"), Payload: text(st + "payload-column-name"), SerializerID: text(st + "serializer-id-column-name"), SerializerManifest: text(st + "serializer-manifest-column-name"),
				Ordering: text(st + "ordering-column-name"), Tags: text(st + "tags-column-name"), Deleted: text(st + "deleted-column-name")},
		},
	}
	if l.State.NoSortKey {
		l.State.Columns.Revision = "revision"
	}
	if text("state.dynamo-db-client.client-version") == "v1" {
		l.State.SameRevision = true
	}
	if tables, ok := s.settings.Layout["extraStateTables"].([]any); ok {
		l.State.TablePrefix = prefix
		for _, name := range tables {
			l.State.Prefixes = append(l.State.Prefixes, name.(string))
		}
	}
	return l
}

func connect(t *testing.T) *dynamodb.Client {
	t.Helper()
	c, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c *dynamodb.Client, l j5ik2o.Layout) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.Open(t.Context(), c, l, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// filtered are the ids of which the JVM's replay filter drops events, or which the plugin could not read, with the numbers of the stored
// events, which the layout reads.
var filtered = map[string]map[annals.PersistenceID][]annals.SeqNr{
	"update-in-place": {"upd-2": {1, 2, 3, 4}, "upd-3": {1, 2, 3, 4}},
	"consistent-read": {"cart-1": {1, 2}},
}

// left is what the plugin lost or left in its tables, by scenario: events that those of another id have replaced at the same key, numbers of events
// that were rejected, and snapshots that were saved without events.
var left = map[string][]string{
	"collisions":   {"hole Counter|4 1 1", "hole a-1 1 1", "hole order-item-5 1 1", "hole user3 1 1"},
	"client-v1":    {"orphan counter-875e6ce0425e4d2b8203f3b44b9b531a 3 3", "orphan counter-875e6ce0425e4d2b8203f3b44b9b531a 6 6"},
	"custom-names": {"orphan counter-875e6ce0425e4d2b8203f3b44b9b531a 3 3", "orphan counter-875e6ce0425e4d2b8203f3b44b9b531a 6 6"},
	"pid-based":    {"orphan counter-875e6ce0425e4d2b8203f3b44b9b531a 6 6"},
	"separator":    {"orphan acct-7 3 3", "orphan acct-7 6 6", "orphan acct::7 3 3", "orphan acct::7 6 6"},
	"writes":       {"hole rej-1 2 2", "hole rej-8 2 4"},
}

// The layout reads from the plugin's tables what the plugin reads.
func TestGoldenRead(t *testing.T) {
	t.Parallel()
	all := scenarios(t)
	if len(all) != 29 {
		t.Errorf("%d scenarios", len(all))
	}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "r" + rand.Text()
			c, layout := connect(t), s.layout(prefix, s.settings.Settings)
			if name == "resolver-change" {
				layout.ByIndex = true
			}
			open(t, c, layout) // creates the tables
			for _, table := range s.tables {
				tableName := prefix + table.Table.TableName
				for _, it := range table.Items {
					if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tableName, Item: it}); err != nil {
						t.Fatal(err)
					}
				}
			}
			store := open(t, c, layout) // checks the rows
			verifytest.Want(t, store, verify.Options{}, left[name]...)
			for _, e := range s.expected.PersistenceIDs {
				readEvents(t, store, e, filtered[name][e.PID])
				readSnapshots(t, store, e)
				readState(t, store, e, layout)
			}
		})
	}
}

func readEvents(t *testing.T, store annals.Store, e entity, there []annals.SeqNr) {
	t.Helper()
	if e.Journal == nil {
		return
	}
	var numbers []annals.SeqNr
	var events []annals.Event
	for got, err := range store.Journal().Replay(t.Context(), e.PID, 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatalf("replay of %q: %v", e.PID, err)
		}
		numbers, events = append(numbers, got.SeqNr), append(events, got)
	}
	if there != nil {
		if !slices.Equal(numbers, there) {
			t.Errorf("%q: read %v, want %v", e.PID, numbers, there)
		}
		return
	}
	if last, err := store.Journal().LastSeqNr(t.Context(), e.PID); err != nil || last != e.Journal.HighestSequenceNr {
		t.Errorf("%q: last number %d, %v, want %d", e.PID, last, err, e.Journal.HighestSequenceNr)
	}
	if len(events) != len(e.Journal.Events) {
		t.Fatalf("%q: %d events (%v), want %d", e.PID, len(events), numbers, len(e.Journal.Events))
	}
	for i, want := range e.Journal.Events {
		got := events[i]
		writer := ""
		if got.WriteID != (annals.WriteID{}) {
			writer = got.WriteID.String()
		}
		if got.SeqNr != want.SeqNr || !same(got.Payload, want) || writer != want.WriterUUID || got.ID != e.PID || got.Time.IsZero() || got.Adapter != want.EventAdapterManifest {
			t.Errorf("%q: read %+v, want %+v", e.PID, got, want)
		}
	}
	for _, r := range e.Journal.Replays {
		var numbers []annals.SeqNr
		for got, err := range store.Journal().Replay(t.Context(), e.PID, r.From, r.To) {
			if err != nil {
				t.Fatal(err)
			}
			if annals.SeqNr(len(numbers)) >= r.Max {
				break
			}
			numbers = append(numbers, got.SeqNr)
		}
		if !slices.Equal(numbers, r.SeqNrs) {
			t.Errorf("%q from %d to %d, %d at most: %v, want %v", e.PID, r.From, r.To, r.Max, numbers, r.SeqNrs)
		}
	}
}

func same(p annals.Payload, want payload) bool {
	return p.SerializerID == want.SerializerID && p.Manifest == want.Manifest && want.Data != nil && bytes.Equal(p.Data, *want.Data)
}

func readSnapshots(t *testing.T, store annals.Store, e entity) {
	t.Helper()
	if e.Snapshots == nil || e.Snapshots.Error != nil {
		return
	}
	next := annals.MaxSeqNr
	for _, want := range e.Snapshots.AllNewestFirst {
		got, ok, err := store.Snapshots().Latest(t.Context(), e.PID, annals.SnapshotCriteria{MaxSeqNr: next})
		if !ok || err != nil || got.SeqNr != want.SeqNr || got.Time.UnixMilli() != want.Timestamp || !same(got.Payload, want) {
			t.Errorf("snapshot of %q up to %d: %+v, %v, %v, want %+v", e.PID, next, got, ok, err, want)
		}
		next = want.SeqNr - 1
	}
	if next > 0 {
		if got, ok, err := store.Snapshots().Latest(t.Context(), e.PID, annals.SnapshotCriteria{MaxSeqNr: next}); ok || err != nil {
			t.Errorf("a further snapshot of %q: %+v, %v", e.PID, got, err)
		}
	}
	for _, c := range e.Snapshots.Criteria {
		if c.Criteria.MaxSequenceNr == 0 || c.Criteria.ToSequenceNr == 0 {
			if c.Found != nil {
				t.Errorf("snapshot of %q by %+v: want %+v", e.PID, c.Criteria, c.Found)
			}
			continue // nothing has such a number; our criteria cannot ask for it
		}
		if c.Criteria.MinSequenceNr > 0 || c.Criteria.MinTimestamp > 0 {
			c.Found = nil // the plugin ignores lower bounds; those of these criteria lie above everything
		}
		got, ok, err := store.Snapshots().Latest(t.Context(), e.PID, ours(c.Criteria))
		if err != nil || ok != (c.Found != nil) || ok && (got.SeqNr != c.Found.SeqNr || got.Time.UnixMilli() != c.Found.Timestamp) {
			t.Errorf("snapshot of %q by %+v: %+v, %v, %v, want %+v", e.PID, c.Criteria, got, ok, err, c.Found)
		}
	}
}

func readState(t *testing.T, store annals.Store, e entity, l j5ik2o.Layout) {
	t.Helper()
	if e.State == nil || e.State.Error != nil {
		return
	}
	got, ok, err := store.States().Get(t.Context(), e.PID)
	var raw struct {
		PersistenceID annals.PersistenceID
		Tag           *string
		Ordering      int64
	}
	_ = json.Unmarshal(e.State.Raw, &raw) // the text "empty" where there is none
	if raw.PersistenceID != "" && raw.PersistenceID != e.PID {
		if ok {
			t.Errorf("state of %q: read that of %q", e.PID, raw.PersistenceID) // what the plugin does where ids share a key
		}
		return
	}
	if e.State.Value == nil {
		if ok || err != nil && !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("state of %q: %+v, %v, want none", e.PID, got, err)
		}
		return
	}
	stored := got.Revision
	if !l.State.SameRevision {
		stored++
	}
	if !ok || err != nil || stored != e.State.Revision || !same(got.Payload, *e.State.Value) || got.Time.UnixMilli() != raw.Ordering {
		t.Errorf("state of %q: %+v, %v, %v, want %+v", e.PID, got, ok, err, *e.State)
	}
	if raw.Tag != nil && (len(got.Tags) != 1 || got.Tags[0] != *raw.Tag) || raw.Tag == nil && got.Tags != nil {
		t.Errorf("tags of %q: %q", e.PID, got.Tags)
	}
}
