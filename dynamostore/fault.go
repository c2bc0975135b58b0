package dynamostore

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// class is what a failed request means for the next step.
type class int

const (
	refused   class = iota + 1 // a condition did not hold: nothing was written
	throttled                  // over the capacity: nothing was written
	busy                       // another transaction holds the item: nothing was written
	lost                       // no answer, or one that says nothing: it may have been written
	unreached                  // no connection: nothing was written
	wrong                      // the request can never work: nothing was written
	down                       // nothing was written, and sending it again at once will not help
)

var throttleCodes = []string{"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling",
	"ProvisionedThroughputExceeded", "ThrottlingError"}

// wrongCodes are the service's error codes that last until the program, its rights or its tables are changed.
var wrongCodes = []string{
	"ValidationException", "ItemCollectionSizeLimitExceededException", "IdempotentParameterMismatchException", "SerializationException",
	"ResourceNotFoundException", "UnknownOperationException",
	"AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "InvalidSignatureException", "InvalidClientTokenId",
	"SignatureDoesNotMatch", "MissingAuthenticationTokenException", "MissingAuthenticationToken", "IncompleteSignatureException",
	"IncompleteSignature", "OptInRequired",
}

// classify says what err means. Payloads are taken out of it on the way: the service sends the other writer's item along.
func classify(err error) class {
	strip(err)
	if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
		return classifyReasons(canceled.CancellationReasons)
	}
	if c := unsent(err); c != 0 {
		return c
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return lost
	}
	switch code := api.ErrorCode(); {
	case code == "ConditionalCheckFailedException":
		return refused
	case slices.Contains(throttleCodes, code):
		return throttled
	case code == "TransactionConflictException":
		return busy
	case code == "TransactionInProgressException":
		return lost
	case slices.Contains(wrongCodes, code):
		return wrong
	}
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusInternalServerError {
		return lost
	}
	return down
}

// unsent is the class of what failed before the request was sent, 0 for everything else. A client that is not the SDK's own
// says nothing about that.
func unsent(err error) class {
	var operation, other *smithy.OperationError
	if !errors.As(err, &operation) {
		return 0
	}
	var api smithy.APIError
	if errors.As(operation.Err, &other) { // of another service, which was asked for credentials
		if errors.As(other.Err, &api) && slices.Contains(wrongCodes, api.ErrorCode()) {
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
	return down // no credentials, or nothing that can be sent
}

// classifyReasons finds the reason that decides: what is wrong for good before what a later try may get past.
func classifyReasons(reasons []types.CancellationReason) class {
	found := down
	for _, r := range reasons {
		switch code := text(r.Code); {
		case code == "", code == "None":
		case code == "ConditionalCheckFailed":
			return refused
		case code == "ValidationError", code == "ItemCollectionSizeLimitExceeded":
			found = wrong
		case slices.Contains(throttleCodes, code) && found != wrong:
			found = throttled
		case code == "TransactionConflict" && found == down:
			found = busy
		}
	}
	return found
}

// strip takes stored items and pieces of answers out of the errors of the SDK. It keeps what the engine still needs: call
// oldItems first.
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

var errUnsupported = &annals.Error{Kind: annals.ErrUnsupported}

// stopped is the error of a wait that ctx ended before anything was sent.
func stopped(err error) error { return &annals.Error{Kind: annals.ErrUnavailable, Err: err} }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
