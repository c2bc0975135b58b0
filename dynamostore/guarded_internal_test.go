package dynamostore

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

type answers string

func (a answers) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// An answer of DynamoDB Streams at which the SDK panics is an error.
func TestGarbledStream(t *testing.T) {
	t.Parallel()
	c := dynamodbstreams.New(dynamodbstreams.Options{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}, HTTPClient: answers(`{"Records":[{"dynamodb":{"NewImage":{"a":{"L":[:{}]}}}}]}`)})
	_, err := c.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("1")}, onceStreams)
	if c := classify(err); c != lost {
		t.Errorf("got class %v of %v", c, err)
	}
}
