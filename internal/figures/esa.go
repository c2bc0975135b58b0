package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// esaFigures compare the layout of the event-store-adapter libraries with direct use of the SDK.
func esaFigures() []Figure {
	return []Figure{
		{Name: "esa-append-cpu", Goal: AtMost(1.15), Run: appendFigure(esa.Layout{Shards: esaShards}, false, processorTime, esaByHand),
			About: "processor time of appends, divided by that of the same transactions with the SDK by hand"},
		{Name: "esa-load", Goal: AtMost(1.1), Run: onDynamo(false, esa.Layout{Shards: esaShards}, dynamostore.Options{}, esaLoad),
			About: "time to load a state and the 9 events after it, divided by that to read the same items with the SDK by hand"},
	}
}

const esaShards = 32

// esaKey returns the key of row n of id, as the library for Go makes it.
func esaKey(id string, n int) map[string]types.AttributeValue {
	_, value, _ := strings.Cut(id, "|")
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	return map[string]types.AttributeValue{"pkey": text("Figure-" + strconv.FormatUint(h.Sum64()%esaShards, 10)), "skey": text("Figure-" + value + "-" + strconv.Itoa(n))}
}

// esaByHand stores event n of id, and puts or updates the head.
func esaByHand(ctx context.Context, c *dynamodb.Client, id string, n int) error {
	_, value, _ := strings.Cut(id, "|")
	now := time.Now()
	it, absent := esaKey(id, n), map[string]string{"#pkey": "pkey"}
	it["aid"], it["seq_nr"], it["occurred_at"] = text("Figure-"+value), number(n), &types.AttributeValueMemberN{Value: strconv.FormatInt(now.UnixMilli(), 10)}
	it["payload"] = &types.AttributeValueMemberB{Value: fmt.Appendf(nil, `{"type":"figure.taken","aggregate_id":{"type":"Figure","value":%q},"seq_nr":%d,"is_created":%t,"occurred_at":%q,%s`,
		value, n, n == 1, now.UTC().Format("2006-01-02T15:04:05.000Z"), figurePayload.Data[1:])}
	event := &types.Put{TableName: aws.String("journal"), Item: it, ConditionExpression: aws.String("attribute_not_exists(#pkey)"), ExpressionAttributeNames: absent,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	var head types.TransactWriteItem
	if n == 1 {
		row := esaKey(id, 0)
		row["aid"], row["seq_nr"], row["version"], row["ttl"] = it["aid"], number(0), number(1), number(0)
		row["payload"] = &types.AttributeValueMemberB{Value: fmt.Appendf(nil, `{"id":{"type":"Figure","value":%q},"seq_nr":1,"version":1,%s`, value, figurePayload.Data[1:])}
		head.Put = &types.Put{TableName: aws.String("snapshot"), Item: row, ConditionExpression: aws.String("attribute_not_exists(#pkey)"), ExpressionAttributeNames: absent,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	} else {
		head.Update = &types.Update{TableName: aws.String("snapshot"), Key: esaKey(id, 0), UpdateExpression: aws.String("SET #version = :after"), ConditionExpression: aws.String("#version = :before"),
			ExpressionAttributeNames: map[string]string{"#version": "version"}, ExpressionAttributeValues: map[string]types.AttributeValue{":before": number(n - 1), ":after": number(n)},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	}
	_, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: event}, head}})
	return err
}

// esaLoad alternates between loads and reads of the same items by hand.
func esaLoad(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
	const id, last = "Figure|loaded", 10
	for n := range annals.SeqNr(last) {
		if err := appendOne(ctx, store, id, n); err != nil {
			return 0, err
		}
	}
	byHand := func() (items int, err error) {
		head, err := b.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("snapshot"), Key: esaKey(id, 0), ConsistentRead: aws.Bool(true)})
		if err != nil || head.Item == nil {
			return 0, fmt.Errorf("read the head: %w", err)
		}
		first, end := esaKey(id, 1), esaKey(id, 99)
		events, err := b.client.Query(ctx, &dynamodb.QueryInput{TableName: aws.String("journal"), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pkey = :pkey AND skey BETWEEN :from AND :to"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pkey": first["pkey"], ":from": first["skey"], ":to": end["skey"]}})
		if err != nil {
			return 0, err
		}
		return len(events.Items), nil
	}
	load := func() (int, error) { return recovered(ctx, store, id) }
	// The garbage collector runs about once in so many loads, so that each turn has its part of that work.
	return ratio(100, clock, times(50, reading(last-1, load)), times(50, reading(last, byHand)))
}
