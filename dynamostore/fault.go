package dynamostore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// class says what to do about a failed request.
type class int

const (
	refused   class = iota + 1 // a condition did not hold: nothing was written
	throttled                  // over the capacity: nothing was written
	busy                       // another transaction holds the item, or another region writes it: nothing was written
	lost                       // no answer, or an answer that does not tell: it may have been written
	unreached                  // no connection, or the time in the signature was wrong: nothing was written
	wrong                      // the request can never work: nothing was written
	reused                     // the token was used with another request: nothing was written
	down                       // nothing was written, and repeating the request at once does not help
)

// classes are the classes of the service's error codes, and of the codes in the reasons of a cancelled transaction. Those of class wrong
// last until the program, its rights or its tables are changed.
var classes = map[string]class{
	"ConditionalCheckFailedException": refused, "ConditionalCheckFailed": refused,
	"ProvisionedThroughputExceededException": throttled, "ProvisionedThroughputExceeded": throttled, "RequestLimitExceeded": throttled,
	"ThrottlingException": throttled, "Throttling": throttled, "ThrottlingError": throttled,
	"TransactionConflictException": busy, "TransactionConflict": busy, "ReplicatedWriteConflictException": busy,
	"RequestTimeTooSkewed": unreached, "RequestExpired": unreached, "RequestInTheFuture": unreached,
	"TransactionInProgressException":       lost,
	"IdempotentParameterMismatchException": reused,

	"ValidationException": wrong, "ValidationError": wrong, "SerializationException": wrong,
	"ItemCollectionSizeLimitExceededException": wrong, "ItemCollectionSizeLimitExceeded": wrong,
	"ResourceNotFoundException": wrong, "UnknownOperationException": wrong,
	"AccessDeniedException": wrong, "AccessDenied": wrong, "UnrecognizedClientException": wrong, "OptInRequired": wrong,
	"InvalidSignatureException": wrong, "InvalidClientTokenId": wrong, "SignatureDoesNotMatch": wrong,
	"MissingAuthenticationTokenException": wrong, "MissingAuthenticationToken": wrong,
	"IncompleteSignatureException": wrong, "IncompleteSignature": wrong,
}

// classify returns the class of err, and removes payloads from err: the service returns the other writer's item with it.
func classify(err error) class {
	strip(err)
	if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
		return classifyReasons(canceled.CancellationReasons)
	}
	if skewed(err) {
		return unreached
	}
	if c := unsent(err); c != 0 {
		return c
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return lost
	}
	if c, ok := classes[api.ErrorCode()]; ok {
		return c
	}
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusInternalServerError {
		return lost
	}
	return down
}

// unsent returns the class of a request that failed before it was sent; 0 otherwise. It is also 0 for errors of a client that is not the
// SDK's: they do not tell.
func unsent(err error) class {
	var operation, other *smithy.OperationError
	if !errors.As(err, &operation) {
		return 0
	}
	var api smithy.APIError
	if errors.As(operation.Err, &other) { // an error of the service that gives credentials
		if errors.As(other.Err, &api) && classes[api.ErrorCode()] == wrong {
			return wrong
		}
		return down
	}
	var sending *smithyhttp.RequestSendError
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var answered *smithyhttp.ResponseError
	var garbled *smithy.DeserializationError
	var canceled *smithy.CanceledError
	switch {
	case errors.As(err, &sending):
		if errors.As(err, &network) && network.Op == "dial" || errors.As(err, &certificate) {
			return unreached
		}
		return 0
	case errors.As(err, &api), errors.As(err, &answered), errors.As(err, &garbled), errors.As(err, &canceled):
		return 0
	}
	return down // no credentials, or a request that cannot be built
}

// clockSkew is the difference of two clocks from which a signature may be refused for its time. The service allows five minutes.
const clockSkew = 4 * time.Minute

// skewed reports whether a signature was refused, and the answer has another time than this machine. The SDK takes the service's time from the
// answer, so the next request can succeed.
func skewed(err error) bool {
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &api) || !slices.Contains([]string{"InvalidSignatureException", "SignatureDoesNotMatch"}, api.ErrorCode()) || !errors.As(err, &answer) || answer.Response == nil {
		return false
	}
	at, err := http.ParseTime(answer.Response.Header.Get("Date"))
	return err == nil && time.Since(at).Abs() > clockSkew
}

// urgency orders what the reasons of a cancelled transaction say: what lasts counts most. A reason that a later try may not meet counts before a
// condition that failed: the item of the former was not evaluated.
var urgency = []class{0, refused, down, busy, throttled, wrong}

// classifyReasons returns the class of a cancelled transaction. down says that the reasons do not tell.
func classifyReasons(reasons []types.CancellationReason) class {
	found := 0
	for _, r := range reasons {
		code := aws.ToString(r.Code)
		c := classes[code]
		if c == 0 && code != "" && code != "None" {
			c = down
		}
		found = max(found, slices.Index(urgency, c))
	}
	return cmp.Or(urgency[found], down)
}

// strip removes stored items and parts of answers from the errors of the SDK. The engine takes the items that it needs before.
func strip(err error) {
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		failed.Item = nil
	}
	if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
		for i := range canceled.CancellationReasons {
			canceled.CancellationReasons[i].Item = nil
		}
	}
	if garbled := (*smithy.DeserializationError)(nil); errors.As(err, &garbled) {
		garbled.Snapshot = nil
	}
}

// stopped returns the error of a call whose context ended before anything was sent.
func stopped(err error) error { return &annals.Error{Kind: annals.ErrUnavailable, Err: err} }
