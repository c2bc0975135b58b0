// Package stream reads DynamoDB Streams. A stream is a tree of shards: a shard is closed after some hours, or when it is split, and others
// go on after it. Each record is in one shard. The records of an item are in the order of its changes, in shards that follow each other. The
// service removes records after 24 hours.
package stream

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// Client is the part of *dynamodbstreams.Client that reads a stream. It repeats requests that are throttled or without an answer itself.
type Client interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// Shard is a shard of a stream.
type Shard struct {
	ID     string
	Parent string // the shard before; "" is none. A shard that has no records any more is not listed, though others name it
	Closed bool   // it gets no more records
}

// Shards lists the shards of a stream, all pages of them. The service answers up to ten such requests a second for a stream.
func Shards(ctx context.Context, c Client, arn string) (all []Shard, err error) {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}
	for {
		out, err := c.DescribeStream(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, s := range out.StreamDescription.Shards {
			r := s.SequenceNumberRange
			all = append(all, Shard{ID: aws.ToString(s.ShardId), Parent: aws.ToString(s.ParentShardId), Closed: r != nil && r.EndingSequenceNumber != nil})
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
		if in.ExclusiveStartShardId == nil {
			return all, nil
		}
	}
}
