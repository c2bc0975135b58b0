package dynamostore_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// esaRun runs a case on new tables.
type esaRun struct {
	*testing.T
	esaCase
	layout string
	deviation
	client   esaClient
	store    *dynamostore.Store
	seen     recorder
	prefix   string // of the tables' names
	journal  string
	heads    string
	copies   string                  // the table of snapshots
	ends     map[annals.SeqNr]string // of copies that are marked
	written  map[string]annals.Event
	deviated bool
}

// esaClient answers requests with an error while fails has their names.
type esaClient struct {
	dynamostore.Client
	fails   []string
	failed  func()
	cancels func(items []types.TransactWriteItem) error
	deletes []int
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
	for _, items := range in.RequestItems {
		c.deletes = append(c.deletes, len(items))
	}
	return c.Client.BatchWriteItem(ctx, in, o...)
}

func (c *esaClient) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := c.fault("UpdateItem"); err != nil {
		return nil, err
	}
	return c.Client.UpdateItem(ctx, in, o...)
}

func (c *esaClient) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if err := c.fault("TransactWriteItems"); err != nil {
		return nil, err
	}
	if cancels := c.cancels; cancels != nil {
		c.cancels = nil
		return nil, cancels(in.TransactItems)
	}
	return c.Client.TransactWriteItems(ctx, in, o...)
}

// requestsOf are the requests that a step's Fails is about.
var requestsOf = map[string][]string{
	"commit": {"TransactWriteItems"}, "read-events": {"Query"}, "read-snapshot": {"GetItem", "BatchGetItem"},
	"retention-query": {"Query"}, "retention-delete": {"BatchWriteItem"}, "retention-mark": {"UpdateItem"},
}

func (r *esaRun) run() {
	r.written, r.ends = map[string]annals.Event{}, map[annals.SeqNr]string{}
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
	if r.prefix == "" {
		r.prefix = "x" + rand.Text()
	}
	prefix, keep, expire := r.prefix, 0, time.Duration(r.Expire)*time.Second
	if r.Keep != nil {
		keep = *r.Keep
	}
	r.journal, r.copies, r.heads = prefix+"j", prefix+"s", prefix+"s"
	options := dynamostore.Options{CreateTables: true, Observer: &r.seen}
	if r.layout != "esa, rust 5" {
		l := esa.Layout{Peer: esa.Rust3, Shards: 3,
			Journal: esa.Journal{Table: r.journal}, Snapshot: esa.Snapshot{Table: r.copies, Keep: keep, Expire: expire}}
		if r.Hash != nil {
			l.Peer, l.Shards, l.Format = esa.Go, 1<<62, esa.Plain()
		}
		r.store, err = dynamostore.Open(r.Context(), &r.client, l, options)
		return err
	}
	r.heads = prefix + "h"
	l := esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Table: r.journal}, Snapshot: esa.Snapshot{Table: r.copies, Keep: keep, Expire: expire}, Head: r.heads}
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
	if category != "" && r.deviation.error != "" {
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
	if s.Keeps > 0 { // a process with another setting
		if r.Keep = &s.Keeps; r.store.Close() != nil || r.open(client(r)) != nil {
			r.Fatalf("%s: the tables cannot be opened again", did)
		}
	}
	r.client.fails, r.client.deletes = requestsOf[s.Fails], nil
	if s.Cancels != nil {
		r.client.cancels = func(items []types.TransactWriteItem) error { return r.cancelled(items, s.Cancels[0], s.Cancels[1]) }
	}
	if r.client.failed = nil; s.Error != "" && s.Fails != "" {
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
		r.wantCopies(did, s.Copies, s.Marked)
	}
	if s.Deletes != nil && !slices.Equal(r.client.deletes, s.Deletes) {
		r.Errorf("%s: requests delete %v copies, want %v", did, r.client.deletes, s.Deletes)
	}
	return true
}

// cancelled is the error of a transaction that is cancelled because of one of its items.
func (r *esaRun) cancelled(items []types.TransactWriteItem, which, code string) error {
	tables := map[string]string{"journal": r.journal, "head": r.heads, "current-snapshot": r.copies, "history-snapshot": r.copies}
	reasons, at := make([]types.CancellationReason, len(items)), -1
	for i, it := range items {
		reasons[i].Code = aws.String("None")
		table := ""
		switch {
		case it.Put != nil:
			table = *it.Put.TableName
		case it.Update != nil:
			table = *it.Update.TableName
		}
		if table == tables[which] && (at < 0 || which == "history-snapshot") { // the copy is the last one
			at = i
		}
	}
	if at < 0 {
		r.Errorf("a transaction without %s", which)
		return nil
	}
	reasons[at].Code = &code
	return &types.TransactionCanceledException{CancellationReasons: reasons}
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
	if r.store.Capabilities().Limits.FirstSnapshot && c.After == 0 && c.Snapshot == nil {
		if !errors.Is(err, annals.ErrInvalid) {
			r.Errorf("%s: got %v, want ErrInvalid: %s", did, err, stateWhy)
		}
		r.Logf("ends with %s: %s", did, stateWhy)
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
	return r.deviation.error != "ok" // what follows is that of a refused write
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

// wantCopies compares the numbers of the copies of snapshots. The sort keys of the esa layout end in the number.
func (r *esaRun) wantCopies(did string, want, wantMarked []annals.SeqNr) {
	r.Helper()
	var kept, marked []annals.SeqNr
	for _, it := range r.rows(r.copies) {
		sort, end := textOf(it["skey"]), textOf(it["ttl"])
		n, err := strconv.ParseInt(sort[strings.LastIndex(sort, "-")+1:], 10, 64)
		switch {
		case err != nil || n == 0: // the newest state
		case end == "" || end == "0":
			kept = append(kept, annals.SeqNr(n))
		default:
			marked = append(marked, annals.SeqNr(n))
			if before, ok := r.ends[annals.SeqNr(n)]; ok && before != end {
				r.Errorf("%s: copy %d ends at %s, and before at %s", did, n, end, before)
			}
			r.ends[annals.SeqNr(n)] = end
		}
	}
	slices.Sort(kept)
	slices.Sort(marked)
	if !slices.Equal(kept, want) || !slices.Equal(marked, wantMarked) {
		r.Errorf("%s: the copies %v and marked %v, want %v and %v", did, kept, marked, want, wantMarked)
	}
}

// buildsAID stores an event with a state, and looks at its aggregate id.
func (r *esaRun) buildsAID() {
	a := r.AID
	value := strings.Repeat(a.Value, a.Repeat) + a.Tail
	id := annals.PersistenceID(a.Type + "|" + value)
	_, err := r.store.Journal().Append(r.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{text("{}")}, Snapshot: &annals.Snapshot{ID: id, SeqNr: 1, Payload: text("{}").Payload}})
	r.wantError("append", err, cmp.Or(a.Error, r.deviation.error))
	if err == nil && textOf(r.rows(r.journal)[0]["aid"]) != a.Type+"-"+value {
		r.Errorf("the row is %v", r.rows(r.journal)[0])
	}
}

// hashes stores an event of an id, whose partition key has the hash in 62 bits.
func (r *esaRun) hashes() {
	id := annals.PersistenceID("Order|" + r.Hash.Text)
	if _, err := r.store.Journal().Append(r.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{text("{}")}, Snapshot: &annals.Snapshot{ID: id, SeqNr: 1, Payload: text("{}").Payload}}); err != nil && r.layout == "esa" {
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
