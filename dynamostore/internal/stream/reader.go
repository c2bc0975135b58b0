package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// ErrTrimmed says that the stream no longer has the records after a Reader's position.
var ErrTrimmed = errors.New("the stream no longer has the next records")

// Record is a change of an item.
type Record struct {
	Sequence string // its number: a position in its shard
	Created  bool   // the item did not exist before
	Removed  bool   // the item does not exist any more, and there is no Image
	Image    plan.Item
}

// The wait after an answer without records doubles from idleFirst to idleMost.
const (
	idleFirst = 200 * time.Millisecond
	idleMost  = time.Second
)

// Reader reads the records of a shard. It is for one goroutine.
type Reader struct {
	client   Client
	in       dynamodbstreams.GetShardIteratorInput
	iterator *string // nil: one has to be asked for
	ended    bool
	idle     time.Duration // the wait after the last answer
	due      time.Time     // of the next request
}

// NewReader returns a Reader of the records after the one whose number is after. "" is the oldest record that the stream still has: that
// older ones have been removed is not noticed.
func NewReader(c Client, arn, shard, after string) *Reader {
	r := &Reader{client: c, in: dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}}
	r.seek(after)
	return r
}

func (r *Reader) seek(after string) {
	if after != "" {
		r.in.ShardIteratorType, r.in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &after
	}
}

// Next returns the next records, and waits for them: at least one, unless end is true. Then the shard has no further records, and will have
// none. After an error, also that of ctx, the next call goes on with the same record. ErrTrimmed, in the chain of an error, lasts.
func (r *Reader) Next(ctx context.Context) (records []Record, end bool, err error) {
	for !r.ended && len(records) == 0 {
		if err := backoff.Sleep(ctx, time.Until(r.due)); err != nil {
			return nil, false, err
		}
		if records, err = r.read(ctx); err != nil {
			return nil, false, fmt.Errorf("shard %s: %w", *r.in.ShardId, err)
		}
	}
	return records, r.ended, nil
}

// read sends one request for records, and one for an iterator if there is none.
func (r *Reader) read(ctx context.Context) ([]Record, error) {
	if r.iterator == nil {
		out, err := r.client.GetShardIterator(ctx, &r.in)
		if err != nil {
			return nil, r.lost(err)
		}
		r.iterator = out.ShardIterator
	}
	out, err := r.client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator})
	if err != nil {
		return nil, r.lost(err)
	}
	r.iterator, r.ended = out.NextShardIterator, out.NextShardIterator == nil
	records := make([]Record, len(out.Records))
	for i, rec := range out.Records {
		records[i] = recordOf(rec)
	}
	if len(records) == 0 {
		r.pause()
		return nil, nil
	}
	r.seek(records[len(records)-1].Sequence)
	r.idle, r.due = 0, time.Time{}
	return records, nil
}

// pause puts the next request off.
func (r *Reader) pause() {
	r.idle = min(max(2*r.idle, idleFirst), idleMost)
	r.due = time.Now().Add(r.idle)
}

// lost returns the error of a request that failed; nil where another iterator helps. An iterator expires 15 minutes after it was given out.
func (r *Reader) lost(err error) error {
	var expired *types.ExpiredIteratorException
	var trimmed *types.TrimmedDataAccessException
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &expired), errors.As(err, &trimmed) && r.in.SequenceNumber == nil: // the oldest record was removed meanwhile
		r.iterator = nil
		r.pause()
		return nil
	case errors.As(err, &trimmed), errors.As(err, &missing):
		return fmt.Errorf("%w: %w", ErrTrimmed, err)
	}
	return err
}

func recordOf(r types.Record) Record {
	rec := Record{Created: r.EventName == types.OperationTypeInsert, Removed: r.EventName == types.OperationTypeRemove}
	if d := r.Dynamodb; d != nil {
		rec.Sequence, rec.Image = aws.ToString(d.SequenceNumber), itemOf(d.NewImage)
	}
	return rec
}
