package dynamostore

import (
	"errors"
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
	wrong                      // the request can never work: nothing was written
	down                       // nothing was written, and sending it again at once will not help
)

var throttleCodes = []string{"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling",
	"ProvisionedThroughputExceeded", "ThrottlingError"}

// classify says what err means. Payloads are taken out of it on the way: the service sends the other writer's item along.
func classify(err error) class {
	strip(err)
	if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
		return classifyReasons(canceled.CancellationReasons)
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
	case code == "ValidationException", code == "ItemCollectionSizeLimitExceededException", code == "IdempotentParameterMismatchException",
		code == "SerializationException":
		return wrong
	}
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusInternalServerError {
		return lost
	}
	return down
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

// stopped is the error of a wait that ctx ended before anything was sent.
func stopped(err error) error { return &annals.Error{Kind: annals.ErrUnavailable, Err: err} }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
