package lean_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/internal/lean"
	"github.com/annals-go/annals/internal/random"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
)

// client is what both clients are.
type client = dynamostore.Client

// server answers each request in the same way, and keeps the newest one.
type server struct {
	status int
	header http.Header
	answer string
	cut    bool // the answer ends after its first byte
	err    error
	got    *http.Request
	body   []byte
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.got, s.body = r, body
	if s.err != nil {
		return nil, s.err
	}
	answer := io.Reader(strings.NewReader(s.answer))
	if s.cut {
		answer = io.MultiReader(strings.NewReader(s.answer[:1]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return &http.Response{StatusCode: s.status, Header: s.header.Clone(), ContentLength: int64(len(s.answer)), Body: io.NopCloser(answer), Request: r}, nil
}

// settings are those of clients, which decide about the endpoint, the headers and the signature.
var settings = map[string]func(o *dynamodb.Options){
	"of a region":     func(*dynamodb.Options) {},
	"of another one":  func(o *dynamodb.Options) { o.Region = "cn-north-1" },
	"at an address":   func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("http://localhost:8000/below") },
	"with FIPS":       func(o *dynamodb.Options) { o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled },
	"with two stacks": func(o *dynamodb.Options) { o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled },
	"of a program":    func(o *dynamodb.Options) { o.AppID = "shop" },
	"with a token": func(o *dynamodb.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("key", "secret", "token")
	},
	"of an account": func(o *dynamodb.Options) {
		o.AccountIDEndpointMode = aws.AccountIDEndpointModePreferred
		o.Credentials = credentials.StaticCredentialsProvider{Value: aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret", AccountID: "123456789012"}}
	},
	"with a wrong mode of accounts": func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModeRequired },
	"without credentials": func(o *dynamodb.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no role") })
	},
}

// pair returns a client of the SDK and a lean one, with servers that answer alike.
func pair(t testing.TB, of server, set func(o *dynamodb.Options)) (bySDK, byLean client, sdkServer, leanServer *server) {
	t.Helper()
	sdkServer, leanServer = new(of), new(of)
	make := func(s *server) *dynamodb.Client {
		return dynamodb.New(dynamodb.Options{Region: "us-east-1", Retryer: aws.NopRetryer{}, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")},
			set, func(o *dynamodb.Options) { o.HTTPClient = s })
	}
	l := lean.New(make(leanServer))
	if l == nil {
		t.Fatal("the client of the SDK is not taken")
	}
	return make(sdkServer), l, sdkServer, leanServer
}

// The requests are those of the SDK, and signed as those.
func TestRequests(t *testing.T) {
	t.Parallel()
	for name, set := range settings {
		random.Each(t, 20, func(t *testing.T, r *random.Source) {
			synctest.Test(t, func(t *testing.T) { // with one time for both signatures
				bySDK, byLean, sdkServer, leanServer := pair(t, server{status: http.StatusOK, answer: "{}"}, set)
				for operation, do := range calls(r) {
					want, got := do(t.Context(), bySDK), do(t.Context(), byLean)
					if kind(want.err) != kind(got.err) {
						t.Fatalf("%s, %s: the error is %v, that of the SDK %v", name, operation, got.err, want.err)
					}
					if want.err == nil {
						compareRequests(t, name+", "+operation, leanServer, sdkServer)
					}
				}
			})
		})
	}
}

func compareRequests(t *testing.T, name string, got, want *server) {
	t.Helper()
	g, w := got.got, want.got
	if g.Method != w.Method || g.URL.String() != w.URL.String() || g.ContentLength != w.ContentLength || !bytes.Equal(got.body, want.body) || g.Host != w.Host && g.Host != w.URL.Host {
		t.Errorf("%s: %s %s\n%s\nby the SDK: %s %s\n%s", name, g.Method, g.URL, got.body, w.Method, w.URL, want.body)
	}
	again, err := g.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(again); err != nil || !bytes.Equal(body, got.body) {
		t.Errorf("%s: the body read again is %s, %v", name, body, err)
	}
	gotHeader, wantHeader := g.Header.Clone(), w.Header.Clone()
	gotHeader.Del("Authorization")
	for _, own := range []string{"Authorization", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request"} { // the latter are about retries
		wantHeader.Del(own)
	}
	if !reflect.DeepEqual(gotHeader, wantHeader) {
		t.Errorf("%s: header %v, by the SDK %v", name, gotHeader, wantHeader)
	}
	signed := g.Clone(t.Context())
	_, names, _ := strings.Cut(g.Header.Get("Authorization"), "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	for name := range g.Header {
		if !slices.Contains(strings.Split(names, ";"), strings.ToLower(name)) {
			signed.Header.Del(name)
		}
	}
	for _, name := range []string{"host", "x-amz-date", "x-amz-target", "content-type"} {
		if !slices.Contains(strings.Split(names, ";"), name) {
			t.Errorf("%s: the signature is of %s, without %s", name, names, name)
		}
	}
	hash := sha256.Sum256(got.body)
	credential := strings.Split(strings.Split(w.Header.Get("Authorization"), ",")[0], "/")
	err = v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret", SessionToken: w.Header.Get("X-Amz-Security-Token")},
		signed, hex.EncodeToString(hash[:]), credential[3], credential[2], time.Now())
	if err != nil || signed.Header.Get("Authorization") != g.Header.Get("Authorization") {
		t.Errorf("%s: signature %s, %v", name, g.Header.Get("Authorization"), err)
	}
}

// The answers are decoded as by the SDK, and errors have the same kinds.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		"{}", "", "null", "[", `{"Items":[:{}]}`, `{"Item":{"a":{"L":[:{}]}},"Responses":{"t":[:{}]}}`, "[]", " 1", `{"Item":{"a":{"S":"b"},"n":{"N":"1"},"x":{"B":"AAE="},"l":{"L":[{"BOOL":true},{"NULL":true}]},"m":{"M":{}},"s":{"SS":["a"]}},"ConsumedCapacity":{"CapacityUnits":0.5}}`,
		`{"Items":[{"a":{"S":"\"b\u00e9"},"n":{"N":"-1.50"},"x":{"B":"AAE="}}],"Count":1,"LastEvaluatedKey":{"a":{"S":"b"}}}`, `{"Items":[{"a":{"L":[{"BOOL":false},{"M":{"s":{"SS":["a"]}}}]}},{}],"Items":null, "Count" : 1 }`,
		`{"Items":[{}{}]}`, `{"Items":[]"Count":1}`, `{"Items":[{"a":{"BOOL":}}]}`, `{"Items":[{"a":{"L":[{"S":"a"}{"S":"b"}]}}]}`, `{"Item":{"a":{"S":"b"}"b":{"S":"c"}}}`, "{\"Items\":[],\"C\x01\":1}", "{\"Items\":[],\"\x01",
		`{"Responses":{"t":[{"a":{"S":"b"}}]}"UnprocessedKeys":{}}`, `{"Responses":{"t":[[{}]}}`, `{"Item":null}`, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"m","Item":{"a":{"S":"b"}}}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{"Code":"None"},{"Code":"ConditionalCheckFailed","Item":{"a":{"S":"b"}}}]}`,
		`{"__type":"com.amazon.coral.service#UnknownOperationException"}`, `<html>`, `{"Item":{"a":{"Q":"b"}}}`, `{"UnprocessedKeys":{"t":{"Keys":[{"a":{"S":"b"}}]}},"Responses":{"t":[{"a":{"S":"b"}}]}}`,
	} {
		for _, status := range []int{200, 400, 500, 503} {
			f.Add(status, body, "", 0)
			f.Add(status, body, "ThrottlingException:", 1)
			f.Add(status, body, "", 2)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body, kindInHeader string, checksum int) {
		if status < 200 || status > 599 || strings.ContainsAny(kindInHeader, "\r\n") {
			return
		}
		header := http.Header{"X-Amzn-Requestid": {"r"}}
		if kindInHeader != "" {
			header.Set("X-Amzn-Errortype", kindInHeader)
		}
		switch checksum {
		case 1:
			header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10))
		case 2:
			header.Set("X-Amz-Crc32", "7")
		}
		bySDK, byLean, _, _ := pair(t, server{status: status, header: header, answer: body}, func(*dynamodb.Options) {})
		for operation, do := range calls(random.Of(1)) {
			if checksum != 2 {
				compareAnswers(t, operation, body, do, bySDK, byLean)
				continue
			}
			if got := do(t.Context(), byLean); !garbled(got.err) { // the SDK only logs it
				t.Errorf("%s: a wrong checksum: %v", operation, got.err)
			}
		}
	})
}

func compareAnswers(t *testing.T, operation, answer string, do func(context.Context, client) result, bySDK, byLean client) {
	t.Helper()
	want, got := decoded(t, do, bySDK), decoded(t, do, byLean)
	if kind(got.err) != kind(want.err) {
		t.Errorf("%s, answer %s: the error is %s: %v\nthat of the SDK %s: %v", operation, answer, kind(got.err), got.err, kind(want.err), want.err)
	}
	if want.err == nil && !reflect.DeepEqual(got.out, want.out) {
		t.Errorf("%s, answer %s: %+v\nby the SDK %+v", operation, answer, got.out, want.out)
	}
}

var errPanicked = errors.New("the SDK panicked")

// decoded is the result of a call. The SDK panics at some answers that are no JSON.
func decoded(t *testing.T, do func(context.Context, client) result, c client) (r result) {
	defer func() {
		if recover() != nil {
			r = result{err: errPanicked}
		}
	}()
	return do(t.Context(), c)
}

func garbled(err error) bool {
	_, is := errors.AsType[*smithy.DeserializationError](err)
	return is
}

// kind is what a store looks at in an error, as text.
func kind(err error) string {
	if err == nil {
		return "none"
	}
	var text strings.Builder
	if operation, ok := errors.AsType[*smithy.OperationError](err); ok {
		text.WriteString(operation.ServiceID + " " + operation.OperationName)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		text.WriteString(" " + api.ErrorCode() + " " + api.ErrorMessage())
	}
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		text.WriteString(" status " + strconv.Itoa(response.HTTPStatusCode()))
	}
	if identified, ok := errors.AsType[interface {
		error
		ServiceRequestID() string
	}](err); ok {
		text.WriteString(" request " + identified.ServiceRequestID())
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		text.WriteString(" sending")
	}
	if garbled(err) {
		text.WriteString(" garbled")
	}
	if _, ok := errors.AsType[*smithy.CanceledError](err); ok {
		text.WriteString(" canceled")
	}
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		text.WriteString(" with the item " + strconv.Itoa(len(refused.Item)))
	}
	if reasons, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, r := range reasons.CancellationReasons {
			text.WriteString(" " + aws.ToString(r.Code) + strconv.Itoa(len(r.Item)))
		}
	}
	return text.String()
}

// result is that of a call. The output has no metadata of the SDK.
type result struct {
	out any
	err error
}

func resultOf[O any](out *O, err error) result {
	if out == nil {
		return result{nil, err}
	}
	reflect.ValueOf(out).Elem().FieldByName("ResultMetadata").SetZero()
	return result{out, err}
}

// calls are a call of each operation, with random items.
func calls(r *random.Source) map[string]func(ctx context.Context, c client) result {
	table, item, key := aws.String("events"), randomItem(r), randomItem(r)
	units := random.OneOf(r, types.ReturnConsumedCapacityNone, types.ReturnConsumedCapacityTotal)
	condition := random.OneOf(r, nil, aws.String("attribute_not_exists(#a)"))
	names := random.OneOf(r, nil, map[string]string{"#a": "<&>\u2028"})
	limit := random.OneOf(r, nil, aws.Int32(7))
	token := random.OneOf(r, nil, aws.String("token"))
	if token == nil {
		token = aws.String("another token") // the SDK makes a random one
	}
	return map[string]func(ctx context.Context, c client) result{
		"GetItem": func(ctx context.Context, c client) result {
			return resultOf(c.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key, ConsistentRead: aws.Bool(true), ExpressionAttributeNames: names, ReturnConsumedCapacity: units}))
		},
		"BatchGetItem": func(ctx context.Context, c client) result {
			return resultOf(c.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*table: {Keys: []map[string]types.AttributeValue{key}}}}))
		},
		"TransactGetItems": func(ctx context.Context, c client) result {
			return resultOf(c.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: table, Key: key}}}}))
		},
		"Query": func(ctx context.Context, c client) result {
			return resultOf(c.Query(ctx, &dynamodb.QueryInput{TableName: table, KeyConditionExpression: condition, ExpressionAttributeValues: item, Limit: limit, ExclusiveStartKey: key}))
		},
		"Scan": func(ctx context.Context, c client) result {
			return resultOf(c.Scan(ctx, &dynamodb.ScanInput{TableName: table, Limit: limit, Segment: aws.Int32(1), TotalSegments: aws.Int32(4)}))
		},
		"PutItem": func(ctx context.Context, c client) result {
			return resultOf(c.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: item, ConditionExpression: condition, ReturnConsumedCapacity: units,
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}))
		},
		"UpdateItem": func(ctx context.Context, c client) result {
			return resultOf(c.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: table, Key: key, UpdateExpression: aws.String("SET a = :a"), ExpressionAttributeValues: item}))
		},
		"DeleteItem": func(ctx context.Context, c client) result {
			return resultOf(c.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: table, Key: key, ConditionExpression: condition}))
		},
		"BatchWriteItem": func(ctx context.Context, c client) result {
			return resultOf(c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*table: {{PutRequest: &types.PutRequest{Item: item}}, {DeleteRequest: &types.DeleteRequest{Key: key}}}}}))
		},
		"TransactWriteItems": func(ctx context.Context, c client) result {
			return resultOf(c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{ClientRequestToken: token, TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: table, Item: item, ConditionExpression: condition}}, {ConditionCheck: &types.ConditionCheck{TableName: table, Key: key, ConditionExpression: aws.String("a = b")}}}}))
		},
	}
}

// randomItem has at most one attribute in each map: the SDK encodes maps in a random order.
func randomItem(r *random.Source) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{random.OneOf(r, "id", "ä", "<&>", "a\"\\"): randomValue(r, 0)}
}

func randomValue(r *random.Source, depth int) types.AttributeValue {
	switch r.IntN(10 - 2*min(depth, 1)) {
	case 0:
		return &types.AttributeValueMemberB{Value: random.OneOf(r, nil, []byte{}, []byte{0, 255, byte(r.IntN(256))})}
	case 1:
		return &types.AttributeValueMemberN{Value: strconv.Itoa(r.IntN(1 << 30))}
	case 2:
		return &types.AttributeValueMemberBOOL{Value: r.OneIn(2)}
	case 3:
		return &types.AttributeValueMemberNULL{Value: true}
	case 4:
		return &types.AttributeValueMemberSS{Value: []string{"a", "b"}}
	case 5:
		return &types.AttributeValueMemberNS{Value: []string{"1", "2"}}
	case 6:
		return &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}}
	case 7:
		text := strings.Repeat("x", random.OneOf(r, 0, 1, 5000))
		for range r.IntN(10) {
			text += random.OneOf(r, "a", "<&>", "\u2028", "\u2029", "\u2030", "\x00", "\n\r\t\b", "\x7f", `"`, `\`, "é", "\ufffd", "\xff", "\xe2\x80", "😀")
		}
		return &types.AttributeValueMemberS{Value: text}
	case 8:
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{randomValue(r, depth+1), randomValue(r, depth+1)}}
	default:
		return &types.AttributeValueMemberM{Value: randomItem(r)}
	}
}

// A transaction without a token gets one, and the input of the caller stays as it is.
func TestToken(t *testing.T) {
	t.Parallel()
	_, byLean, _, got := pair(t, server{status: http.StatusOK, answer: "{}"}, func(o *dynamodb.Options) { o.IdempotencyTokenProvider = tokens{} })
	in := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{}}
	if _, err := byLean.TransactWriteItems(t.Context(), in); err != nil || in.ClientRequestToken != nil || !strings.Contains(string(got.body), `"ClientRequestToken":"a token"`) {
		t.Errorf("%v, %v, sent %s", err, in.ClientRequestToken, got.body)
	}
}

type tokens struct{}

func (tokens) GetIdempotencyToken() (string, error) { return "a token", nil }

// A request that fails, or whose context ends, has the errors of the SDK.
func TestFailures(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), ended} {
		for _, s := range []server{{err: errors.New("connection reset")}, {status: http.StatusOK, answer: "{}", cut: true}, {status: http.StatusOK, answer: `{"Item":{}}`, cut: true}} {
			bySDK, byLean, _, _ := pair(t, s, func(*dynamodb.Options) {})
			for operation, do := range calls(random.Of(1)) {
				if want, got := do(ctx, bySDK), do(ctx, byLean); kind(want.err) != kind(got.err) || got.err == nil {
					t.Errorf("%s: %s, by the SDK %s", operation, kind(got.err), kind(want.err))
				}
			}
		}
	}
}

// A clock that is wrong is wrong once: the next signature has the time of the service.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := time.Now().Add(-3 * time.Hour).UTC()
		_, byLean, _, got := pair(t, server{status: http.StatusOK, answer: "{}", header: http.Header{"Date": {service.Format(http.TimeFormat)}}}, func(*dynamodb.Options) {})
		for i, want := range []time.Time{time.Now().UTC(), service} {
			if _, err := byLean.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t")}); err != nil {
				t.Fatal(err)
			}
			if at := got.got.Header.Get("X-Amz-Date"); at != want.Format("20060102T150405Z") {
				t.Errorf("request %d has the time %s, want %v", i+1, at, want)
			}
		}
	})
}

// A client that does more than a lean one could is left to the SDK.
func TestLeft(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(o *dynamodb.Options){
		"middleware": func(o *dynamodb.Options) {
			o.APIOptions = append(o.APIOptions, func(*middleware.Stack) error { return nil })
		},
		"interceptor": func(o *dynamodb.Options) {
			o.Interceptors.BeforeExecution = append(o.Interceptors.BeforeExecution, nil)
		},
		"logs":         func(o *dynamodb.Options) { o.ClientLogMode = aws.LogRetries },
		"compression":  func(o *dynamodb.Options) { o.EnableAcceptEncodingGzip = true },
		"an old one":   func(o *dynamodb.Options) { o.EndpointResolver = dynamodb.NewDefaultEndpointResolver() }, //nolint:staticcheck // programs may have one
		"discovery":    func(o *dynamodb.Options) { o.EndpointDiscovery.EnableEndpointDiscovery = aws.EndpointDiscoveryEnabled },
		"no signature": func(o *dynamodb.Options) { o.Credentials = nil },
		"anonymous":    func(o *dynamodb.Options) { o.Credentials = aws.AnonymousCredentials{} },
		"endpoints of its own": func(o *dynamodb.Options) {
			o.EndpointResolverV2 = struct{ dynamodb.EndpointResolverV2 }{dynamodb.NewDefaultEndpointResolverV2()}
		},
		"a signer of its own":   func(o *dynamodb.Options) { o.HTTPSignerV4 = struct{ dynamodb.HTTPSignerV4 }{} },
		"another protocol":      func(o *dynamodb.Options) { o.Protocol = awsjson.New11(schemas.DynamoDB_20120810) },
		"signatures of its own": func(o *dynamodb.Options) { o.AuthSchemeResolver = struct{ dynamodb.AuthSchemeResolver }{} },
	} {
		if lean.New(dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")}, set)) != nil {
			t.Errorf("a client with %s is taken", name)
		}
	}
}

// In AWS Lambda each request has the id of the invocation.
func TestLambda(t *testing.T) {
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
	if lean.New(dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})) != nil {
		t.Error("a client in AWS Lambda is taken")
	}
}
