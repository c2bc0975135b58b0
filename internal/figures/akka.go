package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// akkaFigures compare the layouts of the Akka and Pekko plugins with direct use of the SDK.
func akkaFigures() []Figure {
	layout := akka.Layout{Snapshot: akka.Snapshot{Off: true}}
	slow := dynamo.Fault{Delay: requestTime, Remember: true} // the requests are measured, not the server,
	short := func(batch int) events {                        // nor the decoding of the answers
		e := events{10_000, batch, figurePayload}
		e.payload.Data = e.payload.Data[:40]
		return e
	}
	return []Figure{
		{Name: "akka-replay", Goal: AtLeast(6), Run: inverse(readFigure{layout: layout, slow: slow, events: short(99), turns: 10, spent: clock, byHand: groupsByHand}.run),
			About: "time to read the groups of 10,000 events one after the other with the SDK by hand, divided by that of their replay, with 5 ms a request"},
		{Name: "akka0-replay", Goal: AtLeast(6), Run: inverse(readFigure{layout: akka0.Layout{Table: "figures"}, slow: slow, events: short(50), turns: 10, spent: clock, byHand: keysByHand}.run),
			About: "time to read the counters and 10,000 events, 100 items at a time, with the SDK by hand, divided by that of their replay, with 5 ms a request"},
		{Name: "akka-append-cpu", Goal: AtMost(1.15), Run: appendFigure(layout, false, processorTime, akkaByHand),
			About: "processor time of appends, divided by that of the same requests with the SDK by hand"},
		{Name: "akka-throughput-50", Goal: AtLeast(0.9), Run: onDynamo(true, layout, dynamostore.Options{}, throughput(50, true, akkaByHand)),
			About: "requests a second of appends on 50 connections to a server that stores nothing, divided by that of the same requests with the SDK by hand"},
		{Name: "akka-append-plugin", Goal: AtLeast(0.9), Run: onDynamo(true, layout, dynamostore.Options{}, throughput(10, false, akkaAsPlugin)),
			About: "appends a second of 10 writers, divided by those with the plugin's request, which has no condition, with the SDK by hand"},
	}
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
func appendFigure(layout dynamostore.Layout, lean bool, spent func() float64, byHand func(ctx context.Context, c *dynamodb.Client, id string, n int) error) func(ctx context.Context) (float64, error) {
	const turns, each = 100, 120 // more than a group
	return onDynamo(false, layout, dynamostore.Options{Lean: lean}, func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
		return ratio(turns, spent,
			writing("ours", each, func(id annals.PersistenceID, n annals.SeqNr) error { return appendOne(ctx, store, id, n-1) }),
			writing("hand", each, func(id annals.PersistenceID, n annals.SeqNr) error { return byHand(ctx, b.client, string(id), int(n)) }))
	})
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

// throughput alternates between appends of some entities at a time and requests by hand. null is a server that stores nothing.
func throughput(writers int, null bool, byHand func(ctx context.Context, c *dynamodb.Client, id string, n int) error) func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
	return func(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
		if null {
			b.proxy.Swallow("PutItem", "TransactWriteItems")
		}
		entities := 0
		side := func(write func(ctx context.Context, id annals.PersistenceID, n int) error) *side {
			return newSide(writers, func() func(ctx context.Context) error {
				entities++
				id, n := annals.NewPersistenceID("Figure", strconv.Itoa(entities)), 0
				return func(ctx context.Context) error {
					n++
					return write(ctx, id, n)
				}
			})
		}
		ours := side(func(ctx context.Context, id annals.PersistenceID, n int) error {
			return appendOne(ctx, store, id, annals.SeqNr(n-1))
		})
		hand := side(func(ctx context.Context, id annals.PersistenceID, n int) error {
			return byHand(ctx, b.client, string(id), n)
		})
		if err := inTurns(ctx, 20, 150*time.Millisecond, ours, hand); err != nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "%d connections: %.0f requests a second, %.0f by hand; the plugin's documentation says 5,000 for 50 connections\n", writers, ours.perSecond(), hand.perSecond())
		return ours.perSecond() / hand.perSecond(), nil
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}
