package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/aws/aws-sdk-go-v2/aws"
	tables "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// service has one shard whose records are numbered from 1. An iterator is the number of the next record and the turn in which it was given
// out.
type service struct {
	mu               sync.Mutex // of records
	records, trimmed int
	closed           bool
	turn             int // iterators of earlier turns have expired
	missing          bool
	fail             error // of the next request
	asked            []string
}

// write sets the number of records when d has passed.
func (s *service) write(d time.Duration, records int) {
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.records = records
	})
}

func (s *service) ask(name string) (err error) {
	s.asked = append(s.asked, name)
	err, s.fail = s.fail, nil
	return err
}

func (s *service) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if err := s.ask(string(in.ShardIteratorType)); err != nil {
		return nil, err
	}
	next := s.trimmed + 1
	if in.ShardIteratorType == types.ShardIteratorTypeAfterSequenceNumber {
		after, _ := strconv.Atoi(*in.SequenceNumber)
		if next = after + 1; after < s.trimmed {
			return nil, &types.TrimmedDataAccessException{}
		}
	}
	if s.missing {
		return nil, &types.ResourceNotFoundException{}
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String(fmt.Sprint(next, " ", s.turn))}, nil
}

func (s *service) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ask("records"); err != nil {
		return nil, err
	}
	var next, turn int
	_, _ = fmt.Sscan(*in.ShardIterator, &next, &turn)
	switch {
	case turn != s.turn:
		return nil, &types.ExpiredIteratorException{}
	case next <= s.trimmed:
		return nil, &types.TrimmedDataAccessException{}
	}
	out := &dynamodbstreams.GetRecordsOutput{}
	for ; next <= s.records && len(out.Records) < 3; next++ {
		out.Records = append(out.Records, types.Record{EventName: types.OperationTypeInsert, Dynamodb: &types.StreamRecord{SequenceNumber: aws.String(strconv.Itoa(next))}})
	}
	if !s.closed || next <= s.records {
		out.NextShardIterator = aws.String(fmt.Sprint(next, " ", s.turn))
	}
	return out, nil
}

func (s *service) DescribeStream(_ context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	if err := s.ask("describe " + aws.ToString(in.ExclusiveStartShardId)); err != nil {
		return nil, err
	}
	shards := []types.Shard{
		{ShardId: aws.String("a")},
		{ShardId: aws.String("b"), ParentShardId: aws.String("a")},
		{ShardId: aws.String("c"), ParentShardId: aws.String("removed")},
	}
	out := &types.StreamDescription{}
	if *in.StreamArn == "" {
		out = nil
	}
	switch aws.ToString(in.ExclusiveStartShardId) {
	case "":
		out.Shards, out.LastEvaluatedShardId = shards[:1], aws.String("a")
	case "a":
		out.LastEvaluatedShardId = aws.String("b") // a page without shards
	case "b":
		out.Shards = shards[1:]
	}
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: out}, nil
}

func TestShards(t *testing.T) {
	t.Parallel()
	s := &service{}
	for _, page := range []struct {
		after, next string
		shards      []stream.Shard
	}{
		{"", "a", []stream.Shard{{ID: "a"}}},
		{"a", "b", nil},
		{"b", "", []stream.Shard{{ID: "b", Parent: "a"}, {ID: "c", Parent: "removed"}}},
	} {
		shards, next, err := stream.Shards(t.Context(), s, "arn", page.after)
		if err != nil || next != page.next || !slices.Equal(shards, page.shards) {
			t.Errorf("after %q: got %v, %q, %v", page.after, shards, next, err)
		}
	}
	if _, _, err := stream.Shards(t.Context(), s, "", "none"); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("without a description: got %v", err)
	}
	fault := errors.New("fault")
	s.fail = fault
	if _, _, err := stream.Shards(t.Context(), s, "arn", ""); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
}

// read returns the numbers of the records that Next returns.
func read(t *testing.T, r *stream.Reader) (numbers string, end bool) {
	t.Helper()
	records, end, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		numbers += rec.Sequence + " "
	}
	return numbers, end
}

func TestReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{records: 4}
		r := stream.NewReader(s, "arn", "shard", "")
		expect := func(want string, wantEnd bool) {
			t.Helper()
			if got, end := read(t, r); got != want || end != wantEnd {
				t.Fatalf("got the records %q, end %v, want %q, %v", got, end, want, wantEnd)
			}
		}
		expect("1 2 3 ", false)
		s.turn++ // the iterator expires
		expect("4 ", false)
		s.fail = errors.New("no connection")
		if _, _, err := r.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("a request that fails: %v", err)
		}
		s.records, s.closed = 8, true
		expect("5 6 7 ", false)
		expect("8 ", true)
		asked := len(s.asked)
		expect("", true)
		if len(s.asked) != asked {
			t.Error("a request after the end")
		}
		want := "TRIM_HORIZON records records AFTER_SEQUENCE_NUMBER records records records records"
		if got := strings.Join(s.asked, " "); got != want {
			t.Errorf("requests %s, want %s", got, want)
		}
	})
}

// A shard that has no new records is asked once a second. A record is found within a second.
func TestReaderWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		r := stream.NewReader(s, "arn", "shard", "")
		begin := time.Now()
		s.write(time.Hour, 1)
		if got, _ := read(t, r); got != "1 " || time.Since(begin) > time.Hour+time.Second {
			t.Errorf("records %q after %v", got, time.Since(begin))
		}
		if n := len(s.asked); n < 3600 || n > 3600+5 {
			t.Errorf("%d requests in an hour", n)
		}
		s.asked = nil
		s.write(time.Second, 2)
		read(t, r)
		if n := len(s.asked); n != 4 { // after 0, 0.2, 0.6 and 1.4 seconds
			t.Errorf("%d requests in the second after a record", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ends: %v", err)
		}
		s.write(0, 3)
		if got, _ := read(t, r); got != "3 " {
			t.Errorf("after the end of a context: records %q", got)
		}
	})
}

func TestReaderOfTrimmedRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{records: 9, trimmed: 5}
		lost := func(r *stream.Reader) {
			t.Helper()
			for range 2 {
				if _, _, err := r.Next(t.Context()); !errors.Is(err, stream.ErrTrimmed) {
					t.Errorf("got %v, want ErrTrimmed", err)
				}
			}
		}
		lost(stream.NewReader(s, "arn", "shard", "4"))
		r := stream.NewReader(s, "arn", "shard", "")
		if got, _ := read(t, r); got != "6 7 8 " {
			t.Errorf("records %q", got)
		}
		s.trimmed = 9
		lost(r) // with the iterator that it has
		r = stream.NewReader(s, "arn", "shard", "9")
		s.missing = true
		lost(r)
		s.missing, s.closed = false, true
		if got, end := read(t, r); got != "" || !end {
			t.Errorf("records %q, end %v", got, end)
		}
	})
}

// The oldest record can be removed between the two requests that ask for it.
func TestReaderFromTheWatermark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{records: 9}
		r := stream.NewReader(s, "arn", "shard", "")
		s.fail = &types.InternalServerError{} // of the first request
		if _, _, err := r.Next(t.Context()); err == nil {
			t.Error("no error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		trimming := &trims{service: s}
		r = stream.NewReader(trimming, "arn", "shard", "")
		defer cancel()
		records, _, err := r.Next(ctx)
		if err != nil || len(records) == 0 || records[0].Sequence != "3" {
			t.Errorf("records %v, %v", records, err)
		}
	})
}

// trims removes two records after it has given out its first iterator.
type trims struct{ *service }

func (s *trims) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	defer func() { s.trimmed = 2 }()
	return s.service.GetShardIterator(ctx, in, o...)
}

// one answers with one record.
type one struct {
	stream.Client
	types.Record
}

func (o one) GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return &dynamodbstreams.GetRecordsOutput{Records: []types.Record{o.Record}}, nil
}

func TestRecord(t *testing.T) {
	t.Parallel()
	image := map[string]types.AttributeValue{
		"s": &types.AttributeValueMemberS{Value: "text"}, "n": &types.AttributeValueMemberN{Value: "1.5"}, "b": &types.AttributeValueMemberB{Value: []byte{1}},
		"bool": &types.AttributeValueMemberBOOL{Value: true}, "null": &types.AttributeValueMemberNULL{Value: true},
		"ss": &types.AttributeValueMemberSS{Value: []string{"a"}}, "ns": &types.AttributeValueMemberNS{Value: []string{"1"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{2}}},
		"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"x": &types.AttributeValueMemberS{Value: "y"}}}}},
		"?": &types.UnknownUnionMember{Tag: "new", Value: []byte("z")},
	}
	item := plan.Item{
		"s": plan.S("text"), "n": &tables.AttributeValueMemberN{Value: "1.5"}, "b": plan.B([]byte{1}),
		"bool": plan.Bool(true), "null": &tables.AttributeValueMemberNULL{Value: true},
		"ss": &tables.AttributeValueMemberSS{Value: []string{"a"}}, "ns": &tables.AttributeValueMemberNS{Value: []string{"1"}}, "bs": &tables.AttributeValueMemberBS{Value: [][]byte{{2}}},
		"l": plan.L(plan.M(plan.Item{"x": plan.S("y")})), "?": &tables.UnknownUnionMember{Tag: "new", Value: []byte("z")},
	}
	for name, c := range map[types.OperationType]stream.Record{
		types.OperationTypeInsert: {Sequence: "7", Created: true, Image: item},
		types.OperationTypeModify: {Sequence: "7", Image: item},
		types.OperationTypeRemove: {Sequence: "7", Removed: true},
	} {
		rec := types.Record{EventName: name, Dynamodb: &types.StreamRecord{SequenceNumber: aws.String("7"), NewImage: image}}
		if c.Removed {
			rec.Dynamodb.NewImage = nil
		}
		got, end, err := stream.NewReader(one{&service{}, rec}, "arn", "shard", "").Next(t.Context())
		if err != nil || !end || !cmp.Equal(got, []stream.Record{c}, cmpopts.IgnoreUnexported(
			tables.AttributeValueMemberS{}, tables.AttributeValueMemberN{}, tables.AttributeValueMemberB{}, tables.AttributeValueMemberBOOL{}, tables.AttributeValueMemberNULL{},
			tables.AttributeValueMemberSS{}, tables.AttributeValueMemberNS{}, tables.AttributeValueMemberBS{}, tables.AttributeValueMemberL{}, tables.AttributeValueMemberM{}, tables.UnknownUnionMember{})) {
			t.Errorf("%s: got %v, %v, %v", name, got, end, err)
		}
	}
}
