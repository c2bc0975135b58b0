package dynamostore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/headed"
	"github.com/annals-go/annals/dynamostore/headtable"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// esaCase is a case of testdata/conformance.json. It has one of the fields Steps, AID and Hash, or is about how a store opens, or has a Fault that
// only a test of the layout can cause.
type esaCase struct {
	ID    string
	Keep  *int // copies of snapshots
	Steps []esaStep
	AID   *struct {
		Type, Value, Tail string // the value is Value, Repeat times, and Tail
		Repeat            int
		Error             string
	}
	Hash        *struct{ Text, FNV1a64 string }
	Settings    map[string][2]any // the store_id and the version in each table; nil: those that Open writes
	Open        string            // the error of Open
	Unprocessed bool              // the service answers the keys of one table at a time
	Fault       string
}

// esaStep is a write of one event, a read of the head and the newest snapshot, or a read of events.
type esaStep struct {
	ID     annals.PersistenceID // of a read; "" is Order|1
	Write  *esaEvent
	State  *esaState // stored with the event, or expected
	Latest *annals.SeqNr
	Events []annals.SeqNr
	From   annals.SeqNr

	Fails    string // what the service answers with an error
	Error    string
	Requests int // that a write makes
	Copies   []annals.SeqNr
}

// esaEvent is an event. What it lacks is that of the data: Order|1, 2026-10-05T00:00:00.123456789Z, {"number":seq} and an empty manifest.
type esaEvent struct {
	ID                 annals.PersistenceID
	Seq                annals.SeqNr
	Time               *time.Time
	Payload            json.RawMessage
	Manifest           string
	Size, ManifestSize int // of a payload and a manifest of x
}

// esaState is a snapshot. Without Data it is {"total":seq}.
type esaState struct {
	Seq      annals.SeqNr
	Data     json.RawMessage
	Manifest string
	Size     int
}

// deviation says why a case is not as in the data: how it ends instead, or which test is in its place.
type deviation struct {
	error    string // in place of that of the data; "ok" is none
	requests int    // of a refused write; 0 is as in the data
	instead  bool   // the case is not run
	why      string
}

const (
	gapWhy    = "a writer that has read a head ahead of its own knowledge reads again: ErrConflict, and not a violation of the contract"
	codecWhy  = "stores are given bytes: package codec fails before Append is called, and after a replay (codec.TestFaults)"
	tablesWhy = "these are the tables of 5.x, which the headtable layout has"
)

// deviations are those of both layouts, by the beginning of the case's id. The longest one that fits counts.
var deviations = map[string]deviation{
	"core-gap-":                      {error: "optimistic-lock", why: gapWhy},
	"core-no-head-update-":           {error: "optimistic-lock", why: gapWhy},
	"core-serialize-":                {instead: true, why: codecWhy},
	"core-deserialize-":              {instead: true, why: codecWhy},
	"core-retention-zero":            {error: "ok", why: "Keep 0 is the default, and keeps no copies"},
	"dynamodb-config-retry":          {instead: true, why: "Open repeats a read until its context ends (TestThrottledOpen)"},
	"dynamodb-config-create-race":    {instead: true, why: "every order of two creations is run (headtable.TestOrdersOfSettings)"},
	"dynamodb-written-item-shapes":   {instead: true, why: "rows are compared with those of the library (headtable.TestGoldenWrites)"},
	"dynamodb-layout-v1":             {instead: true, why: "tables are compared with those of the library (headtable.TestGoldenWrites)"},
	"dynamodb-snapshot-ahead":        {instead: true, why: "head and snapshot are read in one request, and every order of it and a write is run (headtable.TestOrdersOfRecoveries)"},
	"dynamodb-no-head-with-snapshot": {instead: true, why: "a snapshot without a head is damage, and no aggregate that was never written"},
	"dynamodb-retention-":            {instead: true, why: "the retention has its own tests, with its requests (headtable.TestRequests, internal/retention)"},
	"dynamodb-condition-gap":         {error: "optimistic-lock", why: gapWhy},
	"dynamodb-condition-no-head":     {error: "optimistic-lock", why: gapWhy},
	"dynamodb-transaction-conflict":  {instead: true, why: "the transaction is sent again: a conflict with a write that fails is none (TestTransactionConflicts)"},
	"dynamodb-journal-":              {instead: true, why: "the reasons of cancellations are tested one by one and mixed (TestTransactionConflicts, internal/plan)"},
	"dynamodb-current-snapshot-":     {instead: true, why: "as dynamodb-journal-"},
	"dynamodb-history-snapshot-":     {instead: true, why: "as dynamodb-journal-"},
}

// deviationsOf are those of one layout.
var deviationsOf = map[string]map[string]deviation{
	"headtable": {
		"hash-": {instead: true, why: "the keys have no hash"},
	},
	"headed": {
		"aid-ascii-1023":                   {error: "contract-violation", why: "a sort key has the aid and a number, and at most 1,024 bytes"},
		"aid-ascii-1024":                   {error: "contract-violation", why: "the same"},
		"aid-multibyte-1023":               {error: "contract-violation", why: "the same"},
		"aid-multibyte-1024":               {error: "contract-violation", why: "the same"},
		"seq-above-max-value":              {error: "optimistic-lock", why: "numbers have 63 bits: this one is above the last"},
		"core-seq-above-max":               {error: "optimistic-lock", why: "the same"},
		"dynamodb-config-":                 {instead: true, why: tablesWhy},
		"dynamodb-written-item-shapes":     {instead: true, why: tablesWhy},
		"dynamodb-layout-v1":               {instead: true, why: tablesWhy},
		"dynamodb-condition-gap":           {error: "optimistic-lock", requests: 2, why: gapWhy + "; the second request looks whether a library has left numbers unused"},
		"dynamodb-item-size-head-overhead": {error: "ok", why: "the head does not have the events"},
	},
}

func (c esaCase) deviation(layout string) (found deviation, ok bool) {
	layout, _, _ = strings.Cut(layout, ",")
	longest := -1
	for _, all := range []map[string]deviation{deviations, deviationsOf[layout]} {
		for begin, d := range all {
			if strings.HasPrefix(c.ID, begin) && len(begin) >= longest {
				longest, found = len(begin), d
			}
		}
	}
	return found, longest >= 0
}

// The conformance cases of the event-store-adapter libraries hold, or have a reason why not.
func TestEventStoreAdapterConformance(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []esaCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 116 {
		t.Errorf("%d cases, want 85 scenarios, the layout of the tables and 30 values", len(file.Cases))
	}
	for _, layout := range []string{"headtable", "headed", "headed, lean"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			ran := 0
			for _, c := range file.Cases {
				d, _ := c.deviation(layout)
				if d.instead {
					t.Logf("%s: not run: %s", c.ID, d.why)
					continue
				}
				ran++
				t.Run(c.ID, func(t *testing.T) { (&esaRun{T: t, esaCase: c, layout: layout, deviation: d}).run() })
			}
			if ran < 65 {
				t.Errorf("%d cases were run", ran)
			}
		})
	}
}

// esaRun runs a case on new tables.
type esaRun struct {
	*testing.T
	esaCase
	layout string
	deviation
	client   esaClient
	store    *dynamostore.Store
	seen     recorder
	journal  string
	copies   string // the table of snapshots
	written  map[string]annals.Event
	deviated bool
}

// esaClient answers requests with an error while fails has their names.
type esaClient struct {
	dynamostore.Client
	fails  []string
	failed func()
}

func (c *esaClient) fault(api string) error {
	if !slices.Contains(c.fails, api) {
		return nil
	}
	if c.failed != nil {
		c.failed()
		return &types.InternalServerError{}
	}
	return &types.ResourceNotFoundException{}
}

func (c *esaClient) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if err := c.fault("GetItem"); err != nil {
		return nil, err
	}
	return c.Client.GetItem(ctx, in, o...)
}

func (c *esaClient) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	if err := c.fault("BatchGetItem"); err != nil {
		return nil, err
	}
	return c.Client.BatchGetItem(ctx, in, o...)
}

func (c *esaClient) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if err := c.fault("Query"); err != nil {
		return nil, err
	}
	return c.Client.Query(ctx, in, o...)
}

func (c *esaClient) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	if err := c.fault("BatchWriteItem"); err != nil {
		return nil, err
	}
	return c.Client.BatchWriteItem(ctx, in, o...)
}

func (c *esaClient) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if err := c.fault("TransactWriteItems"); err != nil {
		return nil, err
	}
	return c.Client.TransactWriteItems(ctx, in, o...)
}

// requestsOf are the requests that a step's Fails is about.
var requestsOf = map[string][]string{
	"commit": {"TransactWriteItems"}, "read-events": {"Query"}, "read-snapshot": {"GetItem", "BatchGetItem"},
	"retention-query": {"Query"}, "retention-delete": {"BatchWriteItem"},
}

func (r *esaRun) run() {
	r.written = map[string]annals.Event{}
	service := client(r)
	r.client = esaClient{Client: service}
	if r.Unprocessed {
		r.client.Client = oneTable{service}
	}
	err := r.open(service)
	r.wantError("open", err, r.Open)
	if err != nil {
		return
	}
	defer func() { _ = r.store.Close() }()
	switch {
	case r.AID != nil:
		r.buildsAID()
	case r.Hash != nil:
		r.hashes()
	}
	for i, s := range r.Steps {
		if !r.step(fmt.Sprintf("step %d", i+1), s) {
			return
		}
	}
	if d, ok := r.esaCase.deviation(r.layout); ok && !r.deviated {
		r.Errorf("the case is as in the data, and should not be among the deviations: %s", d.why)
	}
}

// open opens the store of the case on new tables, with its settings.
func (r *esaRun) open(service *dynamodb.Client) (err error) {
	prefix, keep := "x"+rand.Text(), 0
	if r.Keep != nil {
		keep = *r.Keep
	}
	r.journal, r.copies = prefix+"j", prefix+"s"
	options := dynamostore.Options{CreateTables: true, Observer: &r.seen}
	if r.layout != "headtable" {
		l := headed.Layout{Peer: headed.Rust3, Shards: 3, Lean: r.layout == "headed, lean",
			Journal: headed.Journal{Table: r.journal}, Snapshot: headed.Snapshot{Table: r.copies, Keep: keep}}
		if r.Hash != nil {
			l.Peer, l.Shards, l.Format = headed.Go, 1<<62, headed.Plain{}
		}
		r.store, err = dynamostore.Open(r.Context(), &r.client, l, options)
		return err
	}
	l := headtable.Layout{Journal: headtable.Journal{Table: r.journal}, Snapshot: headtable.Snapshot{Table: r.copies, Keep: keep}, Head: prefix + "h"}
	if r.store, err = dynamostore.Open(r.Context(), &r.client, l, options); err != nil || r.Settings == nil {
		return err
	}
	if err := r.store.Close(); err != nil {
		return err
	}
	aid := &types.AttributeValueMemberS{Value: "__config__"}
	zero := &types.AttributeValueMemberN{Value: "0"}
	for table, key := range map[string]map[string]types.AttributeValue{"journal": {"aid": aid, "seq_nr": zero}, "snapshot": {"aid": aid, "skey": zero}, "head": {"aid": aid}} {
		name := prefix + table[:1]
		if _, err := service.DeleteItem(r.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: key}); err != nil {
			return err
		}
		if s, ok := r.Settings[table]; ok {
			key["store_id"] = &types.AttributeValueMemberS{Value: fmt.Sprint(s[0])}
			key["layout_version"] = &types.AttributeValueMemberN{Value: fmt.Sprint(s[1])}
			if _, err := service.PutItem(r.Context(), &dynamodb.PutItemInput{TableName: &name, Item: key}); err != nil {
				return err
			}
		}
	}
	r.store, err = dynamostore.Open(r.Context(), &r.client, l, dynamostore.Options{Observer: &r.seen})
	return err
}

// wantError compares an error with a category of the data, or with that of the deviation.
func (r *esaRun) wantError(did string, err error, category string) {
	r.Helper()
	if category == "" && r.deviation.error != "" && r.AID != nil || category != "" && r.deviation.error != "" {
		r.deviated, category = true, strings.TrimPrefix(r.deviation.error, "ok")
	}
	var kinds []error
	switch category {
	case "":
		if err != nil {
			r.Errorf("%s: %v", did, err)
		}
		return
	case "optimistic-lock":
		kinds = []error{annals.ErrConflict}
	case "contract-violation":
		kinds = []error{annals.ErrInvalid, annals.ErrTooLarge}
	case "configuration":
		kinds = []error{annals.ErrInvalid}
	case "storage":
		kinds = []error{annals.ErrUnavailable, annals.ErrUnknown}
	}
	if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		r.Errorf("%s: got %v, want the category %s", did, err, category)
	}
}

// step reports whether the case can go on.
func (r *esaRun) step(did string, s esaStep) bool {
	if s.ID == "" {
		s.ID = "Order|1"
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r.client.fails = requestsOf[s.Fails]
	if r.client.failed = nil; s.Error != "" {
		r.client.failed = cancel // otherwise the store repeats the request
	}
	defer func() { r.client.fails = nil }()
	switch {
	case s.Write != nil:
		if !r.write(ctx, did, s) {
			return false
		}
	case s.Latest != nil:
		state, ok, err := r.store.Snapshots().Latest(ctx, s.ID, annals.SnapshotCriteria{})
		r.wantError(did+", newest snapshot", err, s.Error)
		if err != nil {
			break
		}
		last, err := r.store.Journal().LastSeqNr(ctx, s.ID)
		want := r.written[fmt.Sprintf("%s state %d", s.ID, or(s.State).Seq)]
		if err != nil || last != *s.Latest || ok != (s.State != nil) || ok && (state.SeqNr != want.SeqNr || !samePayload(state.Payload, want.Payload)) {
			r.Errorf("%s: head %d, snapshot %v %v, error %v; want %d and %v", did, last, ok, state, err, *s.Latest, want)
		}
	default:
		i := 0
		for e, err := range r.store.Journal().Replay(ctx, s.ID, max(s.From, 0), annals.MaxSeqNr) {
			if err != nil {
				r.wantError(did+", replay", err, s.Error)
				i = len(s.Events)
				break
			}
			if i == len(s.Events) {
				r.Fatalf("%s: number %d is too much", did, e.SeqNr)
			}
			if want := r.written[fmt.Sprint(s.ID, s.Events[i])]; e.SeqNr != want.SeqNr || e.Time != want.Time || !samePayload(e.Payload, want.Payload) {
				r.Errorf("%s: got %.200v, want %.200v", did, e, want)
			}
			i++
		}
		if i != len(s.Events) {
			r.Errorf("%s: %d events, want %d", did, i, len(s.Events))
		}
	}
	if s.Copies != nil {
		r.wantCopies(did, s.Copies)
	}
	return true
}

func or(s *esaState) esaState {
	if s == nil {
		return esaState{}
	}
	return *s
}

func (r *esaRun) write(ctx context.Context, did string, s esaStep) bool {
	w := *s.Write
	e := annals.Event{ID: w.ID, SeqNr: w.Seq, Time: time.Date(2026, 10, 5, 0, 0, 0, 123_456_789, time.UTC), Payload: annals.Payload{SerializerID: 31, Manifest: w.Manifest, Data: w.Payload}}
	if e.ID == "" {
		e.ID = s.ID
	}
	if w.Time != nil {
		e.Time = w.Time.UTC()
	}
	if e.Data == nil {
		e.Data = fmt.Appendf(nil, `{"number":%d}`, w.Seq)
	}
	if w.Size > 0 {
		e.Data = []byte(`"` + strings.Repeat("x", w.Size-2) + `"`)
	}
	e.Manifest += strings.Repeat("x", w.ManifestSize)
	c := annals.Commit{ID: e.ID, After: w.Seq - 1, Events: []annals.NewEvent{{Payload: e.Payload, Time: e.Time}}}
	if s.State != nil {
		state := annals.Snapshot{ID: e.ID, SeqNr: s.State.Seq, Payload: annals.Payload{SerializerID: 31, Manifest: s.State.Manifest, Data: s.State.Data}}
		if state.Data == nil {
			state.Data = fmt.Appendf(nil, `{"total":%d}`, s.State.Seq)
		}
		if s.State.Size > 0 {
			state.Data = []byte(`"` + strings.Repeat("x", s.State.Size-2) + `"`)
		}
		c.Snapshot = &state
		if s.Error == "" {
			r.written[fmt.Sprintf("%s state %d", e.ID, s.State.Seq)] = annals.Event{SeqNr: s.State.Seq, Payload: state.Payload}
		}
	}
	_, err := r.store.Journal().Append(ctx, c)
	if r.store.Capabilities().Limits.FirstSnapshot && c.After == 0 && c.Snapshot == nil && s.Error == "" {
		if !errors.Is(err, annals.ErrInvalid) {
			r.Errorf("%s: a first event without a state, which the libraries cannot read: %v", did, err)
		}
		return false
	}
	r.wantError(did+", append", err, s.Error)
	if err == nil {
		r.written[fmt.Sprint(e.ID, e.SeqNr)] = e
	}
	if s.Requests > 0 {
		if n := r.seen.last().Requests; n != s.Requests && n != r.deviation.requests {
			r.Errorf("%s: %d requests, want %d", did, n, s.Requests)
		}
	}
	return err == nil || r.deviation.error != "ok"
}

// samePayload compares payloads by their JSON values.
func samePayload(a, b annals.Payload) bool {
	decode := func(p annals.Payload) (value any) {
		d := json.NewDecoder(bytes.NewReader(p.Data))
		d.UseNumber()
		if d.Decode(&value) != nil {
			return p
		}
		return value
	}
	return a.Manifest == b.Manifest && a.SerializerID == b.SerializerID && reflect.DeepEqual(decode(a), decode(b))
}

// rows returns the rows of a table but the settings.
func (r *esaRun) rows(table string) []map[string]types.AttributeValue {
	out, err := client(r).Scan(r.Context(), &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		r.Fatal(err)
	}
	return slices.DeleteFunc(out.Items, func(it map[string]types.AttributeValue) bool { return textOf(it["aid"]) == "__config__" })
}

func textOf(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

// wantCopies compares the numbers of the copies of snapshots. The sort keys of the headed layout end in the number.
func (r *esaRun) wantCopies(did string, want []annals.SeqNr) {
	r.Helper()
	got := []annals.SeqNr{}
	for _, it := range r.rows(r.copies) {
		sort := textOf(it["skey"])
		n, err := strconv.ParseInt(sort[strings.LastIndex(sort, "-")+1:], 10, 64)
		if err == nil && n > 0 {
			got = append(got, annals.SeqNr(n))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		r.Errorf("%s: the copies %v, want %v", did, got, want)
	}
}

// buildsAID stores an event with a state, and looks at its aggregate id.
func (r *esaRun) buildsAID() {
	a := r.AID
	value := strings.Repeat(a.Value, a.Repeat) + a.Tail
	id := annals.PersistenceID(a.Type + "|" + value)
	_, err := r.store.Journal().Append(r.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{text("{}")}, Snapshot: &annals.Snapshot{ID: id, SeqNr: 1, Payload: text("{}").Payload}})
	r.wantError("append", err, a.Error)
	if err == nil && textOf(r.rows(r.journal)[0]["aid"]) != a.Type+"-"+value {
		r.Errorf("the row is %v", r.rows(r.journal)[0])
	}
}

// hashes stores an event of an id, whose partition key has the hash in 62 bits.
func (r *esaRun) hashes() {
	id := annals.PersistenceID("Order|" + r.Hash.Text)
	if _, err := r.store.Journal().Append(r.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{text("{}")}, Snapshot: &annals.Snapshot{ID: id, SeqNr: 1, Payload: text("{}").Payload}}); err != nil && r.layout == "headed" {
		r.Fatal(err)
	}
	hash, ok := new(big.Int).SetString(r.Hash.FNV1a64, 16)
	if !ok {
		r.Fatal(r.Hash.FNV1a64)
	}
	want := "Order-" + hash.And(hash, big.NewInt(1<<62-1)).String()
	if got := textOf(r.rows(r.journal)[0]["pkey"]); got != want {
		r.Errorf("partition key %s, want %s", got, want)
	}
}
