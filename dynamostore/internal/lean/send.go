package lean

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
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
	at := time.Now()
	if !c.options.DisableClockSkewCorrection {
		at = at.Add(time.Duration(c.skew.Load()))
	}
	s, err := c.signerOf(ctx, credentials, at)
	if err != nil {
		return nil, err
	}
	body := encode(in)
	date, name := s.dateOf(at), operation.ID().Name
	own := [...]string{s.target + name, s.sign(name, body, date[0])}
	header := make(http.Header, len(s.header)+4)
	maps.Copy(header, s.header) // requests share these values, which are never changed
	header["X-Amz-Date"], header[target], header["Authorization"] = date, own[0:1:1], own[1:2:2]
	if s.token != nil {
		header[securityToken] = s.token
	}
	where := *s.url
	r := &http.Request{Method: http.MethodPost, URL: &where, Host: s.host, Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }}
	return r.WithContext(ctx), nil
}

// compareClocks notes how much later the clock of the service is. A wrong one makes the service refuse signatures.
func (c *Client) compareClocks(answer http.Header) {
	date := answer["Date"]
	if last := c.date.Load(); len(date) == 0 || last != nil && *last == date[0] { // a date has seconds only: the first answer of a second tells the most
		return
	}
	if at, err := http.ParseTime(date[0]); err == nil && answer.Get("Age") == "" {
		c.skew.Store(int64(time.Until(at)))
		c.date.Store(&date[0])
	}
}

var errChecksum = errors.New("the answer does not have the checksum that the service has computed")

// bodies are for the text of answers, which is not kept.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptBody is the most memory that is kept for the text of answers and used again. A page has 1 MB of items, which is more as text.
const keptBody = 2 << 20

// decode decodes an answer into out. The error is that of the service where the answer is one.
func (c *Client) decode(ctx context.Context, operation *smithy.OperationSchema, answer *http.Response, out output) error {
	body := bodies.Get().(*bytes.Buffer)
	body.Reset()
	body.Grow(int(min(max(answer.ContentLength, 0), keptBody)) + bytes.MinRead)
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return &smithy.DeserializationError{Err: err}
	}
	if body.Cap() <= keptBody {
		defer bodies.Put(body)
	}
	text := body.Bytes()
	if want := answer.Header.Get("X-Amz-Crc32"); want != "" && !c.options.DisableValidateResponseChecksum && want != strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10) {
		return &smithy.DeserializationError{Err: errChecksum}
	}
	if answer.StatusCode == http.StatusOK {
		d := decoders.Get().(*decoder)
		defer func() {
			if cap(d.plain)+cap(d.rest) <= keptBody {
				decoders.Put(d)
			}
		}()
		if text = d.itemsOf(text, out); string(text) == "{}" {
			return nil
		}
	}
	return c.bySDK(ctx, operation, answer, text, out)
}

// bySDK decodes text, which is of an answer, with the protocol of the SDK.
func (c *Client) bySDK(ctx context.Context, operation *smithy.OperationSchema, answer *http.Response, text []byte, out output) error {
	answer.Body = io.NopCloser(bytes.NewReader(text))
	defer func() { answer.Body = http.NoBody }() // an error keeps the answer, but not the text
	return c.options.Protocol.DeserializeResponse(ctx, operation, dynamodb.TypeRegistry, &smithyhttp.Response{Response: answer}, out)
}
