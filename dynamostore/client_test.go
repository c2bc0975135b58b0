package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The SDK's client closes the body of a request when the head of the answer has arrived. If net/http looks for the end of the body after
// that, it closes the connection, and the SDK sends the update a second time. The connections of this test enforce that order. With the
// wrapper of this package around the body the update is executed once.
func TestRequestBodyIsWrapped(t *testing.T) {
	t.Parallel()
	table := "t" + rand.Text()
	s, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	plain := count(t, table, "plain", func(inner http.RoundTripper) aws.HTTPClient { return watched{&http.Client{Transport: inner}} })
	ours := count(t, table, "ours", func(inner http.RoundTripper) aws.HTTPClient {
		return watched{dynamostore.Steady(&http.Client{Transport: inner})}
	})
	if plain < 2 {
		t.Errorf("without the wrapper the update was applied %d times: the wrapper is no longer needed", plain)
	}
	if ours != 1 {
		t.Errorf("with the wrapper the update was applied %d times", ours)
	}
}

// count sends one update that adds 1, with the SDK's own retries, and returns how often it was applied.
func count(t *testing.T, table, id string, wrap func(http.RoundTripper) aws.HTTPClient) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		x, _ := ctx.Value(exchangeKey{}).(*exchange)
		return &lateConn{Conn: c, x: x, closed: make(chan struct{})}, err
	}}
	c, err := connect(t.Context(), dynamo.Endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	key := map[string]types.AttributeValue{"pid": &types.AttributeValueMemberS{Value: id}, "seq": &types.AttributeValueMemberN{Value: "1"}}
	_, err = c.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &table, Key: key, ReturnValues: types.ReturnValueAllNew,
		UpdateExpression:         aws.String("ADD #n :one SET #data = :data"),
		ExpressionAttributeNames: map[string]string{"#n": "n", "#data": "data"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"},
			":data": &types.AttributeValueMemberS{Value: strings.Repeat("x", 200_000)}},
	}, func(o *dynamodb.Options) {
		o.HTTPClient = wrap(transport)
		o.Retryer = retryOnce{}
	})
	if err != nil {
		t.Logf("%s: %v", id, err)
	}
	out, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(out.Item["n"].(*types.AttributeValueMemberN).Value)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// retryOnce repeats failed requests once, like the SDK but without waiting.
type retryOnce struct{ aws.NopRetryer }

func (retryOnce) MaxAttempts() int                             { return 2 }
func (retryOnce) IsErrorRetryable(error) bool                  { return true }
func (retryOnce) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

type exchangeKey struct{}

// exchange orders the events of one request.
type exchange struct {
	bodyClosed chan struct{} // by the SDK
	wrote      chan struct{} // net/http is done with the request
	failed     bool          // it was not content
	once       sync.Once
}

// watched gives each request an exchange. Bodies that implement io.WriterTo still do.
type watched struct{ aws.HTTPClient }

func (w watched) Do(r *http.Request) (*http.Response, error) {
	x := &exchange{bodyClosed: make(chan struct{}), wrote: make(chan struct{})}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		x.failed = info.Err != nil
		close(x.wrote)
	}})
	watching := &watchedBody{r.Body, x}
	r.Body = watching
	if to, ok := watching.ReadCloser.(io.WriterTo); ok {
		r.Body = struct {
			*watchedBody
			io.WriterTo
		}{watching, to}
	}
	return w.HTTPClient.Do(r.WithContext(ctx))
}

type watchedBody struct {
	io.ReadCloser
	x *exchange
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.x.once.Do(func() { close(b.x.bodyClosed) })
	return err
}

// lateConn returns from the last write of a body when the SDK has closed that body, and returns the rest of the answer when net/http has read
// the body once more.
type lateConn struct {
	net.Conn
	x      *exchange
	sent   int
	heads  int
	closed chan struct{}
	once   sync.Once
}

func (c *lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.sent += n; c.sent > 200_000 {
		<-c.x.bodyClosed
	}
	return n, err
}

func (c *lateConn) Read(b []byte) (int, error) {
	if c.heads++; c.heads > 1 {
		<-c.x.wrote
		if c.x.failed {
			<-c.closed
			return 0, errors.New("the connection was killed")
		}
	}
	return c.Conn.Read(b)
}

func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// bodiless gives answers without a body, as a transport may.
type bodiless struct{}

func (bodiless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent}, nil
}

func TestAnswerWithoutBody(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := dynamostore.Steady(&http.Client{Transport: bodiless{}}).Do(r)
	if err != nil || answer.Body == nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	if body, err := io.ReadAll(answer.Body); err != nil || len(body) != 0 {
		t.Errorf("the body is %s, %v", body, err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
}
