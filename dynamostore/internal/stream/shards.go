// Package stream reads DynamoDB Streams. A stream is a tree of shards: a shard is closed after some hours, or when it is split, and others
// go on after it. Each record is in one shard. The records of an item are in the order of its changes, in shards that follow each other. The
// service removes records after 24 hours.
package stream

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
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
}

// Shards lists a page of the shards of a stream: those after the shard with the id after, and the first ones for "". The next page is after
// next, which is "" for the last page. The service answers up to ten such requests a second for a stream, with up to 100 shards each.
func Shards(ctx context.Context, c Client, arn, after string) (page []Shard, next string, err error) {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}
	if after != "" {
		in.ExclusiveStartShardId = &after
	}
	out, err := c.DescribeStream(ctx, in)
	if err != nil {
		return nil, "", err
	}
	if out.StreamDescription == nil {
		return nil, "", &annals.Error{Kind: annals.ErrUnavailable, Err: errors.New("the answer does not describe the stream")}
	}
	for _, s := range out.StreamDescription.Shards {
		page = append(page, Shard{ID: aws.ToString(s.ShardId), Parent: aws.ToString(s.ParentShardId)})
	}
	return page, aws.ToString(out.StreamDescription.LastEvaluatedShardId), nil
}
