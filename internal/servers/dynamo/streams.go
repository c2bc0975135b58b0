package dynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// StreamsProxy stands between a program and a DynamoDB server whose streams have one shard that keeps everything. Its streams have several
// shards, which can be split and trimmed, and behave as those of the service. All other requests are passed on.
type StreamsProxy struct {
	Endpoint string
	target   string
	server   *httptest.Server
	mu       sync.Mutex
	settings Streams
	streams  map[string]*shards // by ARN
	turn     int                // iterators of earlier turns have expired
	answers  int                // of GetRecords
	answered int                // records in them
}

// Streams are the settings of a StreamsProxy.
type Streams struct {
	Shards  int  // of a stream that is new; 0 is 1
	Page    int  // the most shards in an answer of DescribeStream; 0 is 100
	Records int  // the most records in an answer of GetRecords; 0 is 1000
	Reorder bool // records of different items change their order, those of one item do not

	// Every n-th answer of GetRecords is a throttle, has no records although there are some, or has the records of the next answer, too. 0 is
	// none.
	Throttle, Empty, Repeat int
}

// NewStreamsProxy starts a proxy in front of the server at endpoint.
func NewStreamsProxy(endpoint string, s Streams) *StreamsProxy {
	target, err := url.Parse(endpoint)
	if err != nil {
		panic(err) // a mistake in a test
	}
	p := &StreamsProxy{target: endpoint, streams: map[string]*shards{}}
	p.Set(s)
	pass := httputil.NewSingleHostReverseProxy(target)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), streamsPrefix)
		if !ok || operation == "ListStreams" {
			pass.ServeHTTP(w, r)
			return
		}
		p.answer(w, r, operation)
	}))
	p.Endpoint = p.server.URL
	return p
}

const streamsPrefix = "DynamoDBStreams_20120810."

// Close ends the proxy.
func (p *StreamsProxy) Close() { p.server.Close() }

// Set changes the settings.
func (p *StreamsProxy) Set(s Streams) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings = s
}

// Split closes the open shards of all streams. Each gets so many children, which divide its keys.
func (p *StreamsProxy) Split(ctx context.Context, children int) error {
	return p.each(ctx, func(s *shards) { s.split(children) })
}

// Trim removes all but the newest records of the open shards and of their parents, all records of the older shards, and the closed shards
// that then have none.
func (p *StreamsProxy) Trim(ctx context.Context, keep int) error {
	return p.each(ctx, func(s *shards) { s.trim(keep) })
}

// each changes all streams, with the records that the server has.
func (p *StreamsProxy) each(ctx context.Context, change func(s *shards)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if err := p.pull(ctx, s); err != nil {
			return err
		}
		change(s)
	}
	return nil
}

// Expire makes all iterators expire that were given out before.
func (p *StreamsProxy) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
}

// Answered is how many records were in all answers.
func (p *StreamsProxy) Answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// streamsRequest has the fields of all requests.
type streamsRequest struct {
	StreamArn, ExclusiveStartShardID, ShardID, ShardIteratorType, SequenceNumber, ShardIterator string
	Limit                                                                                       int
}

// refusal is an error of the service, by its name.
type refusal string

func (r refusal) Error() string { return string(r) }

func (p *StreamsProxy) answer(w http.ResponseWriter, r *http.Request, operation string) {
	var in streamsRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, "SerializationException", nil)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out map[string]any
	err := error(refusal("UnknownOperationException"))
	switch operation {
	case "DescribeStream":
		out, err = p.describe(r.Context(), in)
	case "GetShardIterator":
		out, err = p.iterate(r.Context(), in)
	case "GetRecords":
		out, err = p.records(r.Context(), in)
	}
	var refused refusal
	switch {
	case errors.As(err, &refused):
		refuse(w, http.StatusBadRequest, string(refused), nil)
		return
	case err != nil:
		refuse(w, http.StatusInternalServerError, "InternalServerError", map[string]any{"message": err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}

func (p *StreamsProxy) describe(ctx context.Context, in streamsRequest) (map[string]any, error) {
	s, err := p.known(ctx, in.StreamArn)
	if err != nil {
		return nil, err
	}
	page, listed := least(in.Limit, p.settings.Page, 100), []map[string]any{}
	out := map[string]any{}
	for name, value := range s.description {
		out[name] = value
	}
	found := in.ExclusiveStartShardID == ""
	for _, sh := range s.all {
		switch {
		case sh.removed:
		case found && len(listed) == page:
			out["LastEvaluatedShardId"] = listed[page-1]["ShardId"]
		case found:
			listed = append(listed, sh.describe())
		}
		found = found || sh.id == in.ExclusiveStartShardID
	}
	out["Shards"] = listed
	return map[string]any{"StreamDescription": out}, nil
}

func (p *StreamsProxy) iterate(ctx context.Context, in streamsRequest) (map[string]any, error) {
	s, err := p.stream(ctx, in.StreamArn)
	if err != nil {
		return nil, err
	}
	sh := s.find(in.ShardID)
	if sh == nil || sh.removed {
		return nil, refusal("ResourceNotFoundException")
	}
	position, err := sh.position(in.ShardIteratorType, in.SequenceNumber)
	if err != nil {
		return nil, err
	}
	return map[string]any{"ShardIterator": p.iterator(in.StreamArn, sh.id, position)}, nil
}

// iterator names a position in a shard, and the turn in which it was given out.
func (p *StreamsProxy) iterator(arn, shard string, position int) string {
	return fmt.Sprint(p.turn, " ", position, " ", shard, " ", arn)
}

func (p *StreamsProxy) records(ctx context.Context, in streamsRequest) (map[string]any, error) {
	var turn, position int
	var shard, arn string
	if _, err := fmt.Sscan(in.ShardIterator, &turn, &position, &shard, &arn); err != nil {
		return nil, refusal("ValidationException")
	}
	s, err := p.stream(ctx, arn)
	if err != nil {
		return nil, err
	}
	p.answers++
	now := func(every int) bool { return every > 0 && p.answers%every == 0 }
	sh := s.find(shard)
	switch {
	case sh == nil:
		return nil, refusal("ResourceNotFoundException")
	case turn < p.turn:
		return nil, refusal("ExpiredIteratorException")
	case position < sh.trimmed || sh.removed:
		return nil, refusal("TrimmedDataAccessException")
	case now(p.settings.Throttle):
		return nil, refusal("LimitExceededException")
	}
	limit := least(in.Limit, p.settings.Records, 1000)
	if now(p.settings.Empty) {
		limit = 0
	}
	found := []json.RawMessage{}
	for _, rec := range sh.records[position-sh.trimmed:] {
		if len(found) < limit {
			found = append(found, rec.data)
		}
	}
	p.answered += len(found)
	out := map[string]any{"Records": found}
	next := position + len(found)
	switch {
	case now(p.settings.Repeat):
		out["NextShardIterator"] = p.iterator(arn, shard, position)
	case sh.end == "" || next < sh.trimmed+len(sh.records):
		out["NextShardIterator"] = p.iterator(arn, shard, next)
	}
	return out, nil
}

// least returns the least of limits that are set; the last one is.
func least(limits ...int) int {
	return slices.Min(slices.DeleteFunc(limits, func(n int) bool { return n == 0 }))
}

// stream returns a stream, with the records that the server has.
func (p *StreamsProxy) stream(ctx context.Context, arn string) (*shards, error) {
	s, err := p.known(ctx, arn)
	if err != nil {
		return nil, err
	}
	return s, p.pull(ctx, s)
}

// known returns a stream, with the records that were pulled.
func (p *StreamsProxy) known(ctx context.Context, arn string) (*shards, error) {
	if s := p.streams[arn]; s != nil {
		return s, nil
	}
	s := &shards{arn: arn}
	if err := p.open(ctx, s); err != nil {
		return nil, err
	}
	p.streams[arn] = s
	return s, p.pull(ctx, s) // the older records are in the first shards
}

// open asks the server for the description of a stream and for an iterator of its shard.
func (p *StreamsProxy) open(ctx context.Context, s *shards) error {
	var out struct{ StreamDescription json.RawMessage }
	if err := p.send(ctx, streamsPrefix+"DescribeStream", map[string]any{"StreamArn": s.arn}, &out); err != nil {
		return err
	}
	var described struct {
		TableName string
		Shards    []struct{ ShardID string }
	}
	if err := errors.Join(json.Unmarshal(out.StreamDescription, &described), json.Unmarshal(out.StreamDescription, &s.description)); err != nil {
		return err
	}
	if len(described.Shards) != 1 {
		return fmt.Errorf("the server describes the stream as %s", out.StreamDescription)
	}
	var of struct {
		Table struct {
			KeySchema []struct{ AttributeName, KeyType string }
		}
	}
	if err := p.send(ctx, "DynamoDB_20120810.DescribeTable", map[string]any{"TableName": described.TableName}, &of); err != nil {
		return err
	}
	for _, k := range of.Table.KeySchema {
		if k.KeyType == "HASH" {
			s.hash = k.AttributeName
		}
	}
	var iterator struct{ ShardIterator string }
	err := p.send(ctx, streamsPrefix+"GetShardIterator", map[string]any{"StreamArn": s.arn, "ShardId": described.Shards[0].ShardID, "ShardIteratorType": "TRIM_HORIZON"}, &iterator)
	s.iterator = iterator.ShardIterator
	s.begin(max(p.settings.Shards, 1))
	return err
}

const fullAnswer = 1000 // records in an answer of the server

// pull takes the new records of the server. An answer that is not full ends it, since more may be written all the time.
func (p *StreamsProxy) pull(ctx context.Context, s *shards) error {
	for {
		var out struct {
			Records           []map[string]json.RawMessage
			NextShardIterator string
		}
		if err := p.send(ctx, streamsPrefix+"GetRecords", map[string]any{"ShardIterator": s.iterator, "Limit": fullAnswer}, &out); err != nil {
			return err
		}
		s.iterator = out.NextShardIterator
		for _, r := range out.Records {
			if err := s.add(r); err != nil {
				return err
			}
		}
		if len(out.Records) < fullAnswer {
			return s.release(p.settings.Reorder)
		}
	}
}

// send sends a request to the server. An error of the service is a refusal.
func (p *StreamsProxy) send(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", operation)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err = io.ReadAll(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		var fault struct {
			Type string `json:"__type"`
		}
		_ = json.Unmarshal(body, &fault)
		_, name, _ := strings.Cut(fault.Type, "#")
		return refusal(name)
	}
	return json.Unmarshal(body, out)
}
