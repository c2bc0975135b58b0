package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// akkaFigures compare the layouts of the Akka and Pekko plugins with direct use of the SDK.
func akkaFigures() []Figure {
	return []Figure{
		{
			Name:  "akka-replay",
			About: "time to read the groups of 10,000 events one after the other with the SDK by hand, divided by that of their replay, with 5 ms a request",
			Goal:  AtLeast(6),
			Run: func(ctx context.Context) (float64, error) {
				return readFigure(ctx, akka.Layout{Snapshot: akka.Snapshot{Off: true}}, 99, groupsByHand)
			},
		},
		{
			Name:  "akka0-replay",
			About: "time to read the counters and 10,000 events, 100 items at a time, with the SDK by hand, divided by that of their replay, with 5 ms a request",
			Goal:  AtLeast(6),
			Run: func(ctx context.Context) (float64, error) {
				return readFigure(ctx, akka0.Layout{Table: "figures"}, 50, keysByHand)
			},
		},
		{
			Name:  "akka-append-cpu",
			About: "processor time of appends, divided by that of the same requests with the SDK by hand",
			Goal:  AtMost(1.15),
			Run: func(ctx context.Context) (float64, error) {
				return appendFigure(ctx, akka.Layout{Snapshot: akka.Snapshot{Off: true}}, akkaByHand)
			},
		},
		{
			Name:  "akka-throughput-50",
			About: "requests a second of appends on 50 connections to a server that stores nothing, divided by that of the same requests with the SDK by hand",
			Goal:  AtLeast(0.9),
			Run: func(ctx context.Context) (float64, error) {
				return akkaThroughput(ctx, 50, true, akkaByHand)
			},
		},
		{
			Name:  "akka-append-plugin",
			About: "appends a second of 10 writers, divided by those with the plugin's request, which has no condition, with the SDK by hand",
			Goal:  AtLeast(0.9),
			Run: func(ctx context.Context) (float64, error) {
				return akkaThroughput(ctx, 10, false, akkaAsPlugin)
			},
		},
	}
}

// readFigure alternates between a replay of 10,000 events and a read by hand, which yields the data of the same events.
func readFigure(ctx context.Context, layout dynamostore.Layout, batch int, byHand func(ctx context.Context, c *dynamodb.Client, id string) iter.Seq2[[]byte, error]) (value float64, err error) {
	err = onFront(ctx, 128, layout, func(f *front, client *dynamodb.Client, store annals.Store) error {
		const id, count, turns = "Figure|replayed", 10_000, 10
		payload := figurePayload
		payload.Data = payload.Data[:40] // the requests are measured, not the decoding of the answers
		for n := 0; n < count; n += batch {
			events := slices.Repeat([]annals.NewEvent{{Payload: payload}}, min(batch, count-n))
			if _, err := store.Journal().Append(ctx, annals.Commit{ID: id, After: annals.SeqNr(n), Events: events}); err != nil {
				return err
			}
		}
		f.delay.Store(int64(5 * time.Millisecond))
		ours, theirs := time.Hour, time.Hour // the shortest times: others may use the machine
		for turn := range turns + 1 {
			begun := time.Now()
			n, sum, err := replayed(ctx, store, id)
			mine := time.Since(begun)
			if err != nil {
				return err
			}
			begun = time.Now()
			m, sum2 := 0, 0
			for data, err := range byHand(ctx, client, id) {
				if err != nil {
					return err
				}
				m, sum2 = m+1, sum2+len(data)
			}
			handTook := time.Since(begun)
			if n != count || m != count || sum != sum2 {
				return fmt.Errorf("replayed %d events of %d bytes, and %d of %d by hand", n, sum, m, sum2)
			}
			if turn > 0 { // the first makes the server's answers known
				ours, theirs = min(ours, mine), min(theirs, handTook)
			}
		}
		value = theirs.Seconds() / ours.Seconds()
		return nil
	})
	return value, err
}

// groupsByHand queries the groups of id one after the other, up to the first that is empty, and decodes their events.
func groupsByHand(ctx context.Context, c *dynamodb.Client, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for group := 0; ; group++ {
			in := &dynamodb.QueryInput{TableName: aws.String("akka-persistence"), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("par = :par"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":par": text("journal-P-" + id + "-" + strconv.Itoa(group))}}
			found := 0
			for pages := dynamodb.NewQueryPaginator(c, in); pages.HasMorePages(); {
				page, err := pages.NextPage(ctx)
				if err != nil {
					yield(nil, err)
					return
				}
				for _, it := range page.Items {
					if found++; !yield(it["event"].(*types.AttributeValueMemberB).Value, nil) {
						return
					}
				}
			}
			if found == 0 {
				return
			}
		}
	}
}

// keysByHand reads the counters of id and then its events, 100 at a time, and decodes them.
func keysByHand(ctx context.Context, c *dynamodb.Client, id string) iter.Seq2[[]byte, error] {
	read := func(kind string, from, to int) (map[string]map[string]types.AttributeValue, error) {
		left := map[string]types.KeysAndAttributes{"figures": {ConsistentRead: aws.Bool(true)}}
		for n := from; n < to; n++ {
			keys := left["figures"]
			keys.Keys = append(keys.Keys, map[string]types.AttributeValue{"key": text("journal-" + kind + "-" + id + "-" + strconv.Itoa(n))})
			left["figures"] = keys
		}
		found := map[string]map[string]types.AttributeValue{}
		for len(left) > 0 {
			out, err := c.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: left})
			if err != nil {
				return nil, err
			}
			for _, it := range out.Responses["figures"] {
				found[it["key"].(*types.AttributeValueMemberS).Value] = it
			}
			left = out.UnprocessedKeys
		}
		return found, nil
	}
	return func(yield func([]byte, error) bool) {
		last := 0
		for shard := 0; shard < 1000; shard += 100 {
			found, err := read("SH", shard, shard+100)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, it := range found {
				n, _ := strconv.Atoi(it["sequenceNr"].(*types.AttributeValueMemberN).Value)
				last = max(last, n)
			}
		}
		for from := 1; from <= last; from += 100 {
			found, err := read("P", from, min(from+100, last+1))
			if err != nil {
				yield(nil, err)
				return
			}
			for n := from; n < from+100 && n <= last; n++ {
				r, err := akkawire.ParseRecord(found["journal-P-"+id+"-"+strconv.Itoa(n)]["payload"].(*types.AttributeValueMemberB).Value)
				if !yield(r.Payload.Data, err) || err != nil {
					return
				}
			}
		}
	}
}

// appendFigure alternates between appends and the same requests by hand: byHand stores event n of an id.
func appendFigure(ctx context.Context, layout dynamostore.Layout, byHand func(ctx context.Context, c *dynamodb.Client, id string, n int) error) (value float64, err error) {
	const turns, each = 100, 120 // more than a group
	err = onDynamo(ctx, false, layout, dynamostore.Options{}, func(b *dynamoBench, store annals.Store) error {
		value, err = ratio(turns, processorTime,
			writing("ours", each, func(id annals.PersistenceID, n annals.SeqNr) error { return appendOne(ctx, store, id, n-1) }),
			writing("hand", each, func(id annals.PersistenceID, n annals.SeqNr) error { return byHand(ctx, b.client, string(id), int(n)) }))
		return err
	})
	return value, err
}

func appendOne(ctx context.Context, s annals.Store, id annals.PersistenceID, after annals.SeqNr) error {
	c := annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: figurePayload}}}
	if after == 0 && s.Capabilities().Limits.FirstSnapshot {
		c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: figurePayload}
	}
	_, err := s.Journal().Append(ctx, c)
	return err
}

func akkaRow(id string, n int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"par":             text("journal-P-" + id + "-" + strconv.Itoa(n/100)),
		"num":             number(n % 100),
		"persistence_id":  text(id),
		"seq":             number(n),
		"event":           &types.AttributeValueMemberB{Value: figurePayload.Data},
		"ev_ser_id":       number(int(figurePayload.SerializerID)),
		"ev_ser_manifest": text(figurePayload.Manifest),
		"writer_uuid":     text(annals.NewWriteID().String()),
	}
}

// akkaMark is the high mark of the group that begins with n.
func akkaMark(id string, n int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"par": text("journal-SH-" + id + "-" + strconv.Itoa(n/100%10)), "num": number(0), "seq": number(n)}
}

// akkaByHand puts event n of id, with the mark of its group if it is the first of the group.
func akkaByHand(ctx context.Context, c *dynamodb.Client, id string, n int) error {
	row := &types.Put{TableName: aws.String("akka-persistence"), Item: akkaRow(id, n), ConditionExpression: aws.String("attribute_not_exists(#par)"),
		ExpressionAttributeNames:            map[string]string{"#par": "par"},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	if n%100 != 0 {
		_, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: row.TableName, Item: row.Item, ConditionExpression: row.ConditionExpression,
			ExpressionAttributeNames: row.ExpressionAttributeNames, ReturnValuesOnConditionCheckFailure: row.ReturnValuesOnConditionCheckFailure})
		return err
	}
	mark := &types.Put{TableName: row.TableName, Item: akkaMark(id, n), ConditionExpression: aws.String("attribute_not_exists(#par) OR #seq <= :seq"),
		ExpressionAttributeNames: map[string]string{"#par": "par", "#seq": "seq"}, ExpressionAttributeValues: map[string]types.AttributeValue{":seq": number(n)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	_, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: row}, {Put: mark}}})
	return err
}

// akkaAsPlugin puts event n of id as the plugin does: without a condition, with the high mark on each multiple of 100.
func akkaAsPlugin(ctx context.Context, c *dynamodb.Client, id string, n int) error {
	put := func(it map[string]types.AttributeValue) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}
	}
	rows := []types.WriteRequest{put(akkaRow(id, n))}
	if n%100 == 0 {
		rows = append(rows, put(akkaMark(id, n)))
	}
	_, err := c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"akka-persistence": rows}})
	return err
}

// akkaThroughput alternates between appends of some entities at a time and requests by hand. null is a server that stores nothing.
func akkaThroughput(ctx context.Context, connections int, null bool, byHand func(ctx context.Context, c *dynamodb.Client, id string, n int) error) (value float64, err error) {
	err = onFront(ctx, connections, akka.Layout{Snapshot: akka.Snapshot{Off: true}}, func(f *front, client *dynamodb.Client, store annals.Store) error {
		const turns = 20
		f.null.Store(null)
		// rate returns the requests a second of workers that each do n = 1, 2, …
		rate := func(do func(worker, n int) error) (float64, error) {
			ended, stop := context.WithTimeout(ctx, 150*time.Millisecond)
			defer stop()
			before, begun := f.requests.Load(), time.Now()
			var workers sync.WaitGroup
			errs := make([]error, connections)
			for w := range errs {
				workers.Go(func() {
					for n := 1; ended.Err() == nil && errs[w] == nil; n++ {
						errs[w] = do(w, n)
					}
				})
			}
			workers.Wait()
			return float64(f.requests.Load()-before) / time.Since(begun).Seconds(), errors.Join(errs...)
		}
		var ours, theirs float64 // the highest rates: others may use the machine
		for turn := range turns + 1 {
			mine, err := rate(func(worker, n int) error {
				return appendOne(ctx, store, annals.NewPersistenceID("Figure", fmt.Sprintf("ours-%d-%d", turn, worker)), annals.SeqNr(n-1))
			})
			if err != nil {
				return err
			}
			hand, err := rate(func(worker, n int) error {
				return byHand(ctx, client, fmt.Sprintf("Figure|hand-%d-%d", turn, worker), n)
			})
			if err != nil {
				return err
			}
			if turn > 0 {
				ours, theirs = max(ours, mine), max(theirs, hand)
			}
		}
		fmt.Fprintf(os.Stderr, "%d connections: %.0f requests a second, %.0f by hand; the plugin's documentation says 5,000 for 50 connections\n", connections, ours, theirs)
		value = ours / theirs
		return nil
	})
	return value, err
}

// onFront runs measure on a new server behind a front, with a client of so many connections and a store of a layout.
func onFront(ctx context.Context, connections int, layout dynamostore.Layout, measure func(f *front, client *dynamodb.Client, store annals.Store) error) error {
	b, err := openDynamo(ctx, false)
	if err != nil {
		return err
	}
	defer b.close()
	f := newFront(b.server.Endpoint)
	defer f.server.Close()
	client, err := dynamostore.NewClient(ctx, clientOptions(f.server.URL, connections))
	if err != nil {
		return err
	}
	store, err := dynamostore.Open(ctx, client, layout, dynamostore.Options{CreateTables: true, MaxInFlight: connections})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return measure(f, client, store)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}

// front is a server in front of another one. It answers writes itself, without storing anything, while null is set. While delay is set, it takes
// that long for each read, and answers as the other server has answered the same read before, so that only the client's work is measured.
type front struct {
	server   *httptest.Server
	target   string
	client   *http.Client
	null     atomic.Bool
	delay    atomic.Int64
	requests atomic.Int64
	answers  sync.Map
}

func newFront(target string) *front {
	f := &front{target: target, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	f.server = httptest.NewServer(f)
	return f
}

// ServeHTTP is http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests.Add(1)
	begun := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch operation {
	case "PutItem", "TransactWriteItems":
		if f.null.Load() {
			_, _ = w.Write([]byte("{}"))
			return
		}
	case "Query", "BatchGetItem":
		if delay := time.Duration(f.delay.Load()); delay > 0 {
			known := operation + string(body)
			answer, ok := f.answers.Load(known)
			if !ok {
				answer = f.pass(w, r, body)
				f.answers.Store(known, answer)
			}
			time.Sleep(delay - time.Since(begun))
			_, _ = w.Write(answer.([]byte))
			return
		}
	}
	_, _ = w.Write(f.pass(w, r, body))
}

// pass returns the answer of the other server, whose status it sets.
func (f *front) pass(w http.ResponseWriter, r *http.Request, body []byte) []byte {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, f.target, bytes.NewReader(body))
	if err != nil {
		panic(err) // the endpoint is no URL
	}
	req.Header = r.Header.Clone()
	out, err := f.client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the connection is closed
	}
	defer func() { _ = out.Body.Close() }()
	answer, err := io.ReadAll(out.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(out.StatusCode)
	return answer
}
