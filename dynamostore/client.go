package dynamostore

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"
)

// Client is the part of *dynamodb.Client that a Store uses. Retrying is the Store's alone: a Client must send every request
// once. Open tells a *dynamodb.Client so with every call.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
}

// DefaultConnections is what MaxConnections means when it is 0.
const DefaultConnections = 50

// ClientOptions are for NewClient. The zero ClientOptions takes everything from the SDK's own chain: environment, shared
// files, the role of the machine.
type ClientOptions struct {
	Endpoint       string                  // "" = the service's, or AWS_ENDPOINT_URL
	Region         string                  // "" = the SDK's chain
	Credentials    aws.CredentialsProvider // nil = the SDK's chain
	MaxConnections int                     // kept open to the service; 0 = DefaultConnections
}

// NewClient makes a client with a connection pool of its own.
func NewClient(ctx context.Context, o ClientOptions) (*dynamodb.Client, error) {
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
		return nil, &annals.Error{Op: "open", Kind: annals.ErrUnavailable, Err: ctx.Err()}
	case err != nil: // a shared file or a variable of the environment says something that cannot be
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	connections := o.MaxConnections
	if connections == 0 {
		connections = DefaultConnections
	}
	return dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) {
		d.HTTPClient = steady{&http.Client{Transport: transport(connections)}}
		d.Retryer = aws.NopRetryer{}
		d.Logger = logging.Nop{} // it warns of every answer that a caller stopped waiting for
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
	}), nil
}

// transport keeps as many connections as may be in use: with net/http's own two per host most requests would open one.
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

// steady hides that request bodies of the SDK can WriteTo. The SDK closes a body as soon as the answer's head is there, and
// a closed body answers WriteTo with io.EOF. When net/http, which tries for bytes beyond the declared length at the end of
// an upload, comes too late, it takes that for a failed upload and kills the connection under the answer: the answer is
// lost, the request goes out again, and a write has been applied twice. Through Read alone io.EOF is just the end.
//
// It also ends an answer whose body stops coming: the time-outs of net/http end with the head of an answer.
type steady struct{ aws.HTTPClient }

func (s steady) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	ctx, cancel := context.WithCancel(r.Context())
	answer, err := s.HTTPClient.Do(r.WithContext(ctx))
	if err != nil || answer == nil || answer.Body == nil {
		cancel()
		return answer, err
	}
	answer.Body = &flowing{body: answer.Body, cancel: cancel}
	return answer, nil
}

// bodyStalls is how long one read of an answer's body may take. The service sends at most 16 MB, in pieces.
const bodyStalls = 10 * time.Second

// flowing is the body of an answer. A read that takes too long ends with an error.
type flowing struct {
	body    io.ReadCloser
	cancel  context.CancelFunc // of the request; it ends a read
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

// once is given to every call: one layer retries, and it is not the SDK's.
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	if _, ok := o.HTTPClient.(steady); !ok {
		o.HTTPClient = steady{o.HTTPClient}
	}
}
