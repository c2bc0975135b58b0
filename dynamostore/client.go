package dynamostore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"time"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Client is the part of *dynamodb.Client that a Store uses. The Store repeats requests itself, so a Client must send each request once.
// For a *dynamodb.Client the Store turns the SDK's retries off with every call.
type Client interface {
	dynamodb.BatchGetItemAPIClient
	dynamodb.QueryAPIClient
	dynamodb.ScanAPIClient
	dynamodb.DescribeTableAPIClient
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	TransactGetItems(context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
}

// defaultConnections is the default of ClientOptions.MaxConnections and Options.MaxInFlight.
const defaultConnections = 50

// ClientOptions are the options of NewClient and NewStreamsClient. The zero value takes everything from the SDK's default chain: the environment, shared files,
// the role of the machine.
type ClientOptions struct {
	Endpoint       string                  // "" is the service's, or AWS_ENDPOINT_URL
	Region         string                  // "" is the SDK's default chain
	Credentials    aws.CredentialsProvider // nil is the SDK's default chain
	MaxConnections int                     // most connections to the service; 0 is 50
}

// NewClient returns a client with its own connection pool. Its errors are ErrInvalid for a faulty configuration, such as one without a region, and ErrUnavailable when ctx
// has ended. Connections that are not used stay open for 90 seconds; the HTTPClient of the client's Options has a method
// CloseIdleConnections.
func NewClient(ctx context.Context, o ClientOptions) (*dynamodb.Client, error) {
	cfg, err := o.config(ctx)
	if err != nil {
		return nil, err
	}
	client := dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) {
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
	})
	if d := client.Options(); d.Region == "" && d.BaseEndpoint == nil {
		return nil, errNoRegion
	}
	return client, nil
}

// errNoRegion says at once what each request would fail with.
var errNoRegion = &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: errors.New("no region: set ClientOptions.Region (region in a URL), AWS_REGION or a shared file")}

// NewStreamsClient is NewClient for DynamoDB Streams, which is a service of its own with an endpoint of its own.
func NewStreamsClient(ctx context.Context, o ClientOptions) (*dynamodbstreams.Client, error) {
	cfg, err := o.config(ctx)
	if err != nil {
		return nil, err
	}
	client := dynamodbstreams.NewFromConfig(cfg, func(d *dynamodbstreams.Options) {
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
	})
	if d := client.Options(); d.Region == "" && d.BaseEndpoint == nil {
		return nil, errNoRegion
	}
	return client, nil
}

// config is what a client of any service is made with.
func (o ClientOptions) config(ctx context.Context) (aws.Config, error) {
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(o.Credentials))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	switch {
	case ctx.Err() != nil:
		return cfg, &annals.Error{Op: "open", Kind: annals.ErrUnavailable, Err: ctx.Err()}
	case err != nil: // a shared file or an environment variable is not valid
		return cfg, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	cfg.HTTPClient = steady{&http.Client{Transport: transport(cmp.Or(o.MaxConnections, defaultConnections))}}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	cfg.Logger = logging.Nop{} // the SDK would log each answer that a caller stopped waiting for
	return cfg, nil
}

// transport keeps as many idle connections as may be in use. With net/http's default of two for each host, most requests would open a new
// connection.
func transport(connections int) *http.Transport {
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		MaxConnsPerHost:       connections,
		MaxIdleConns:          connections,
		MaxIdleConnsPerHost:   connections,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 10 * time.Second,
	}
}

// steady hides that the SDK's request bodies implement io.WriterTo. The SDK closes a body when the head of the answer has arrived, and
// WriteTo of a closed body returns io.EOF. At the end of an upload net/http looks for bytes beyond the declared length. If it does
// so after the close, it takes io.EOF for a failed upload and closes the connection before the answer is read. Then the answer is
// lost, the request is repeated, and a write is executed twice. From Read, io.EOF is only the end of the body.
//
// steady also ends an answer whose body stops arriving: the timeouts of net/http only cover the head of an answer. It follows no redirects, which
// the service does not send.
type steady struct{ aws.HTTPClient }

// unclosed is the type of the bodies of lean requests. They have nothing to close, and net/http knows that they are in memory: then it sends the head and the
// body of a request together.
var unclosed = reflect.TypeOf(io.NopCloser(bytes.NewReader(nil)))

func (s steady) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody && reflect.TypeOf(r.Body) != unclosed {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	ctx, cancel := context.WithCancel(r.Context())
	answer, err := s.send(r.WithContext(ctx))
	if err != nil || answer == nil {
		cancel()
		return answer, err
	}
	if answer.Body == nil { // as a program's own transport may leave it
		answer.Body = http.NoBody
	}
	answer.Body = &flowing{body: answer.Body, cancel: cancel}
	return answer, nil
}

// send leaves out what an http.Client does beside its transport, where it has nothing to do there.
func (s steady) send(r *http.Request) (*http.Response, error) {
	if c, ok := s.HTTPClient.(*http.Client); ok && c.Transport != nil && c.CheckRedirect == nil && c.Jar == nil && c.Timeout == 0 {
		return c.Transport.RoundTrip(r)
	}
	return s.HTTPClient.Do(r)
}

// CloseIdleConnections closes the connections that no request uses.
func (s steady) CloseIdleConnections() {
	if c, ok := s.HTTPClient.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// connections returns the most connections that the transport of an HTTP client has to the service; 0 is without bound, or not known.
func connections(c aws.HTTPClient) int {
	if s, ok := c.(steady); ok {
		c = s.HTTPClient
	}
	var t *http.Transport
	switch c := c.(type) {
	case *http.Client:
		t, _ = c.Transport.(*http.Transport)
	case interface{ GetTransport() *http.Transport }: // the SDK's own
		t = c.GetTransport()
	}
	if t == nil {
		return 0
	}
	return t.MaxConnsPerHost
}

// bodyStalls is the longest time of one read from the body of an answer. Answers have at most 16 MB and arrive in parts.
const bodyStalls = 10 * time.Second

// flowing is the body of an answer. A read that takes too long ends with an error.
type flowing struct {
	body    io.ReadCloser
	cancel  context.CancelFunc // of the request; ends a read
	timer   *time.Timer        // runs during a read
	stalled bool
}

var errStalled = fmt.Errorf("the answer stopped coming for %v", bodyStalls)

func (f *flowing) Read(b []byte) (int, error) {
	if f.timer == nil {
		f.timer = time.AfterFunc(bodyStalls, f.cancel)
	} else {
		f.timer.Reset(bodyStalls)
	}
	n, err := f.body.Read(b)
	if !f.timer.Stop() {
		f.stalled = true
	}
	if err != nil && f.stalled {
		err = errStalled
	}
	return n, err
}

func (f *flowing) Close() error {
	defer f.cancel()
	return f.body.Close()
}

// once turns the SDK's retries off. It is an option of every call: only the engine repeats requests.
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	if _, ok := o.HTTPClient.(steady); !ok {
		o.HTTPClient = steady{o.HTTPClient}
	}
	o.Protocol = guarded{o.Protocol}
}

// guarded is the protocol of the SDK, which panics at some answers that are no JSON: these do not tell what became of the request.
type guarded struct{ smithyhttp.ClientProtocol }

func (g guarded) DeserializeResponse(ctx context.Context, operation *smithy.OperationSchema, known *smithy.TypeRegistry, answer *smithyhttp.Response, out smithy.Deserializable) (err error) {
	defer func() {
		if recover() != nil {
			err = &smithy.DeserializationError{Err: errGarbled}
		}
	}()
	return g.ClientProtocol.DeserializeResponse(ctx, operation, known, answer, out)
}

var errGarbled = errors.New("the answer is no JSON")
