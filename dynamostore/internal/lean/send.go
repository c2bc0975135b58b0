package lean

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// output is the output of an operation.
type output interface{ smithy.Deserializable }

// send sends a request and decodes its answer. Its errors have the types that those of a *dynamodb.Client have.
func send[O output](ctx context.Context, c *Client, operation *smithy.OperationSchema, in smithy.Serializable, out O) (O, error) {
	var none O
	if err := c.exchange(ctx, operation, in, out); err != nil {
		return none, failed(operation, err)
	}
	return out, nil
}

func failed(operation *smithy.OperationSchema, err error) error {
	return &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: operation.ID().Name, Err: err}
}

func (c *Client) exchange(ctx context.Context, operation *smithy.OperationSchema, in smithy.Serializable, out output) error {
	request, err := c.request(ctx, operation, in)
	if err != nil {
		return err
	}
	answer, err := c.options.HTTPClient.Do(request)
	switch {
	case err == nil:
		defer answer.Body.Close()
		c.compareClocks(answer.Header)
		err = c.decode(ctx, operation, answer, out)
	case ctx.Err() != nil:
		answer, err = &http.Response{}, &smithy.CanceledError{Err: ctx.Err()}
	default:
		answer, err = &http.Response{}, &smithyhttp.RequestSendError{Err: err}
	}
	if err == nil {
		return nil
	}
	return &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: answer}, Err: err},
		RequestID:     answer.Header.Get("X-Amzn-Requestid"),
	}
}

// request returns a signed request, whose body can be read again when net/http repeats it on another connection.
func (c *Client) request(ctx context.Context, operation *smithy.OperationSchema, in smithy.Serializable) (*http.Request, error) {
	credentials, err := c.options.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("get identity: get credentials: %w", err)
	}
	p, err := c.patternOf(ctx, credentials.AccountID)
	if err != nil {
		return nil, err
	}
	encoded := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if err := c.options.Protocol.SerializeRequest(ctx, operation, in, encoded); err != nil {
		return nil, &smithy.SerializationError{Err: err}
	}
	body := make([]byte, encoded.ContentLength)
	if _, err := io.ReadFull(encoded.GetStream(), body); err != nil {
		return nil, &smithy.SerializationError{Err: err}
	}
	r := encoded.WithContext(ctx)
	*r.URL, r.Host = *p.url, p.url.Host
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	hash := sha256.Sum256(body)
	at := time.Now()
	if !c.options.DisableClockSkewCorrection {
		at = at.Add(time.Duration(c.skew.Load()))
	}
	// The signature covers what the header has by now. Values that requests share are never changed.
	if err := c.options.HTTPSignerV4.SignHTTP(ctx, credentials, r, hex.EncodeToString(hash[:]), p.scope, p.region, at); err != nil {
		return nil, fmt.Errorf("sign http: %w", err)
	}
	maps.Copy(r.Header, p.header)
	return r, nil
}

// compareClocks notes how much later the clock of the service is. A wrong one makes the service refuse signatures.
func (c *Client) compareClocks(answer http.Header) {
	if at, err := http.ParseTime(answer.Get("Date")); err == nil && answer.Get("Age") == "" {
		c.skew.Store(int64(time.Until(at)))
	}
}

var errChecksum = errors.New("the answer does not have the checksum that the service has computed")

// summed is a body that computes the checksum of what was read.
type summed struct {
	io.ReadCloser
	sum uint32
}

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.sum = crc32.Update(s.sum, crc32.IEEETable, b[:n])
	return n, err
}

// decode decodes an answer into out. The error is that of the service where the answer is one.
func (c *Client) decode(ctx context.Context, operation *smithy.OperationSchema, answer *http.Response, out output) error {
	body := &summed{ReadCloser: answer.Body}
	answer.Body = body
	err := c.options.Protocol.DeserializeResponse(ctx, operation, dynamodb.TypeRegistry, &smithyhttp.Response{Response: answer}, out)
	if err != nil {
		if _, garbled := errors.AsType[*smithy.DeserializationError](err); garbled {
			return err
		}
	}
	if want := answer.Header.Get("X-Amz-Crc32"); want != "" && !c.options.DisableValidateResponseChecksum && want != strconv.FormatUint(uint64(body.sum), 10) {
		return &smithy.DeserializationError{Err: errChecksum}
	}
	return err
}
