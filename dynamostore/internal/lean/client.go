// Package lean sends the requests of a *dynamodb.Client without the layers of the SDK, which take most of the processor time of a request. It takes
// from the SDK what inputs and outputs have, credentials, HTTP client, errors, and the decoding of answers but for their items. The endpoint and the headers come
// from a request that the client itself has made. Inputs are encoded and requests are signed by this package, with the same bytes as by the SDK.
package lean

import (
	"context"
	"os"
	"reflect"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/metrics"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Client is a *dynamodb.Client whose requests for items are sent by this package, each of them once. The options of a call are ignored there, and the
// inputs are not validated. It is safe for concurrent use.
type Client struct {
	*dynamodb.Client
	options dynamodb.Options
	pattern atomic.Pointer[pattern]
	signer  atomic.Pointer[signer]
	date    atomic.Pointer[string] // the header of the answer that skew is from
	skew    atomic.Int64           // how much later the clock of the service is than that of this machine, as a time.Duration
}

// New returns a Client for c, with options like those of a call. It is nil where c does more with a request than a Client does: middleware,
// interceptors, metrics, traces, logs, compressed answers, another protocol, endpoints and signatures that the program makes or chooses, requests without a
// signature, and the ids of invocations in AWS Lambda.
func New(c *dynamodb.Client, options ...func(*dynamodb.Options)) *Client {
	o := c.Options()
	for _, set := range options {
		set(&o)
	}
	_, unmetered := o.MeterProvider.(metrics.NopMeterProvider)
	_, untraced := o.TracerProvider.(*tracing.NopTracerProvider)
	old := o.EndpointResolver != nil //nolint:staticcheck // programs may have one
	usual := dynamodb.New(dynamodb.Options{}).Options()
	chooses := reflect.TypeOf(o.EndpointResolverV2) != reflect.TypeOf(usual.EndpointResolverV2) || reflect.TypeOf(o.AuthSchemeResolver) != reflect.TypeOf(usual.AuthSchemeResolver) ||
		reflect.TypeOf(o.HTTPSignerV4) != reflect.TypeOf(usual.HTTPSignerV4) || o.Protocol.ID() != usual.Protocol.ID()
	_, lambda := os.LookupEnv("AWS_LAMBDA_FUNCTION_NAME")
	if lambda || chooses || !unmetered || !untraced || len(o.APIOptions) > 0 || intercepts(o.Interceptors) || o.ClientLogMode != 0 || o.EnableAcceptEncodingGzip ||
		old || o.EndpointDiscovery.EnableEndpointDiscovery == aws.EndpointDiscoveryEnabled || o.Credentials == nil {
		return nil
	}
	return &Client{Client: c, options: o}
}

// intercepts reports whether one of the fields of r, which are slices, has an element.
func intercepts(r smithyhttp.InterceptorRegistry) bool {
	for _, of := range reflect.ValueOf(r).Fields() {
		if of.Len() > 0 {
			return true
		}
	}
	return false
}

var (
	getItem            = smithy.NewOperationSchema(schemas.GetItem, schemas.GetItemInput, schemas.GetItemOutput)
	batchGetItem       = smithy.NewOperationSchema(schemas.BatchGetItem, schemas.BatchGetItemInput, schemas.BatchGetItemOutput)
	transactGetItems   = smithy.NewOperationSchema(schemas.TransactGetItems, schemas.TransactGetItemsInput, schemas.TransactGetItemsOutput)
	query              = smithy.NewOperationSchema(schemas.Query, schemas.QueryInput, schemas.QueryOutput)
	scan               = smithy.NewOperationSchema(schemas.Scan, schemas.ScanInput, schemas.ScanOutput)
	putItem            = smithy.NewOperationSchema(schemas.PutItem, schemas.PutItemInput, schemas.PutItemOutput)
	updateItem         = smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput)
	deleteItem         = smithy.NewOperationSchema(schemas.DeleteItem, schemas.DeleteItemInput, schemas.DeleteItemOutput)
	batchWriteItem     = smithy.NewOperationSchema(schemas.BatchWriteItem, schemas.BatchWriteItemInput, schemas.BatchWriteItemOutput)
	transactWriteItems = smithy.NewOperationSchema(schemas.TransactWriteItems, schemas.TransactWriteItemsInput, schemas.TransactWriteItemsOutput)
)

// GetItem is that of *dynamodb.Client.
func (c *Client) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return send(ctx, c, getItem, in, new(dynamodb.GetItemOutput))
}

// BatchGetItem is that of *dynamodb.Client.
func (c *Client) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return send(ctx, c, batchGetItem, in, new(dynamodb.BatchGetItemOutput))
}

// TransactGetItems is that of *dynamodb.Client.
func (c *Client) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	return send(ctx, c, transactGetItems, in, new(dynamodb.TransactGetItemsOutput))
}

// Query is that of *dynamodb.Client.
func (c *Client) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return send(ctx, c, query, in, new(dynamodb.QueryOutput))
}

// Scan is that of *dynamodb.Client.
func (c *Client) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return send(ctx, c, scan, in, new(dynamodb.ScanOutput))
}

// PutItem is that of *dynamodb.Client.
func (c *Client) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return send(ctx, c, putItem, in, new(dynamodb.PutItemOutput))
}

// UpdateItem is that of *dynamodb.Client.
func (c *Client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return send(ctx, c, updateItem, in, new(dynamodb.UpdateItemOutput))
}

// DeleteItem is that of *dynamodb.Client.
func (c *Client) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return send(ctx, c, deleteItem, in, new(dynamodb.DeleteItemOutput))
}

// BatchWriteItem is that of *dynamodb.Client.
func (c *Client) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return send(ctx, c, batchWriteItem, in, new(dynamodb.BatchWriteItemOutput))
}

// TransactWriteItems is that of *dynamodb.Client. An input without a ClientRequestToken gets one.
func (c *Client) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if in.ClientRequestToken == nil {
		token, err := c.options.IdempotencyTokenProvider.GetIdempotencyToken()
		if err != nil {
			return nil, failed(transactWriteItems, err)
		}
		tokened := *in
		tokened.ClientRequestToken, in = &token, &tokened
	}
	return send(ctx, c, transactWriteItems, in, new(dynamodb.TransactWriteItemsOutput))
}
