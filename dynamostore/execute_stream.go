package dynamostore

import (
	"context"
	"errors"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
)

// StreamsClient is the part of *dynamodbstreams.Client that reads streams: DescribeStream, GetShardIterator and GetRecords. The Store repeats
// requests itself, so a StreamsClient must send each request once. For a *dynamodbstreams.Client the Store turns the SDK's retries off
// with every call.
type StreamsClient interface{ stream.Client }

// streams is the stream.Client that sends requests as the engine sends those to tables: throttled requests are repeated until the context
// ends, those without an answer a bounded number of times. Its errors are *annals.Error.
type streams struct {
	*engine
	client StreamsClient
}

func (s streams) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return readStream(ctx, s, s.client.DescribeStream, in)
}

func (s streams) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return readStream(ctx, s, s.client.GetShardIterator, in)
}

func (s streams) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return readStream(ctx, s, s.client.GetRecords, in)
}

func readStream[I, O any](ctx context.Context, s streams, send func(context.Context, *I, ...func(*dynamodbstreams.Options)) (*O, error), in *I) (*O, error) {
	keys := func() []string { return nil } // each shard has its own capacity, and one reader
	return read(ctx, s.engine, keys, func(ctx context.Context, in *I, _ ...func(*dynamodb.Options)) (*O, error) {
		out, err := send(ctx, in, onceStreams)
		if limit, ok := errors.AsType[*streamtypes.LimitExceededException](err); ok { // the service's answer to requests that come too often; of a table it means something else
			err = &smithy.GenericAPIError{Code: "ThrottlingException", Message: limit.ErrorMessage()}
		}
		return out, err
	}, in)
}

// onceStreams is once for the other service.
func onceStreams(o *dynamodbstreams.Options) {
	o.Retryer = aws.NopRetryer{}
	if _, ok := o.HTTPClient.(steady); !ok {
		o.HTTPClient = steady{o.HTTPClient}
	}
	o.Protocol = guarded{o.Protocol}
}

// streamOf returns the name (ARN) of the stream of a table. It asks each time: a stream that is switched on again has another name. A table
// without a stream of new images is ErrInvalid.
func (e *engine) streamOf(ctx context.Context, table string) (arn string, err error) {
	description, err := e.describe(ctx, table)
	switch {
	case err != nil:
		return "", err
	case description == nil:
		return "", plan.Misfit("table %q does not exist", table)
	}
	s := description.StreamSpecification
	switch {
	case s == nil || !aws.ToBool(s.StreamEnabled) || description.LatestStreamArn == nil:
		return "", plan.Misfit("table %q has no stream: %s", table, streamCommand(table))
	case s.StreamViewType != types.StreamViewTypeNewImage && s.StreamViewType != types.StreamViewTypeNewAndOldImages:
		return "", plan.Misfit("the stream of table %q has the view %s and no new images: switch it off, then: %s", table, s.StreamViewType, streamCommand(table))
	}
	return *description.LatestStreamArn, nil
}

// streamCommand switches the stream of a table on.
func streamCommand(table string) string {
	return "aws dynamodb update-table --table-name " + quote.Text(table) + " --stream-specification StreamEnabled=true,StreamViewType=NEW_IMAGE"
}
