package dynamostore_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

func streamsClient(t testing.TB, endpoint string) *dynamodbstreams.Client {
	t.Helper()
	c, err := dynamostore.NewStreamsClient(t.Context(), dynamostore.ClientOptions{Endpoint: endpoint, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
